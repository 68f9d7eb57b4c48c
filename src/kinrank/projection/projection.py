"""A linear map that a collection's vectors are searched under, and its file.

What methods rank must not depend on how many rows are projected at a time, nor on the threads of
BLAS, whose sums have another order for each. So sums are rounded to a grid that is coarser than
what their order can change; the few that lie between two of its points are summed again in one
order.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank._onnx_file import OnnxGraph
from kinrank.errors import InvalidInputError
from kinrank.io import PathLike, load_safetensors, replacing, save_safetensors
from kinrank.parallel import Runner
from kinrank.projection.arrays import Wide, finite_floats, unit
from kinrank.reading import reading
from kinrank.types import Floats
from kinrank.validation import as_matrix, as_vectors, check_int, check_path

_GRID = 28  # bits that a coordinate has below the length of its direction
_UNSURE = 4 * 2.0**-53  # for each column: twice what the order of a sum can change, and room
GROWN = 2  # times the rows from which on a map should be learnt again
_SHARES = 1e-6  # by which shares may miss 1


@dataclass(frozen=True, eq=False, repr=False)
class Projection:
    """x -> matrix (x - mean), each block to unit norm, the blocks side by side.

    Every method takes one as ``whiten``. Rows have unit norm before and after.

    Attributes
    ----------
    mean : (d,) float32
    matrix : (k, d) float32, the most telling directions of each block first
    blocks : how many rows of the matrix each block has; one block unless several views of the
        vectors are searched side by side
    shares : how much each block counts, 1 in all
    kind : what it is: "pairs", "views", "identity", "given" or the power of a whitening
    reason : in words, why it is what it is
    rows : how many vectors it was fitted to; 0 where it was not fitted

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> rows = np.random.default_rng(0).normal(size=(50, 8))
    >>> half = kinrank.Projection.fit(rows, kind=0.25)
    >>> half.transform(rows).shape
    (50, 8)
    """

    mean: npt.NDArray[np.float32]
    matrix: npt.NDArray[np.float32]
    blocks: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    kind: str = "given"
    reason: str = ""
    rows: int = 0

    def __post_init__(self) -> None:
        mean = finite_floats("mean", self.mean, np.float32)
        matrix = finite_floats("matrix", self.matrix, np.float32)
        if mean.ndim != 1 or matrix.ndim != 2 or matrix.shape[1] != len(mean):
            raise InvalidInputError(
                "`mean` and `matrix` must be of shapes (d,) and (k, d), "
                f"got {mean.shape} and {matrix.shape}."
            )
        blocks = tuple(check_int("blocks", size, 1) for size in self.blocks or (len(matrix),))
        if sum(blocks) != len(matrix):
            raise InvalidInputError(
                f"`blocks` must sum to the rows of `matrix` ({len(matrix)}), got {blocks}."
            )
        shares = tuple(float(share) for share in self.shares or [1 / len(blocks)] * len(blocks))
        total = math.fsum(shares)
        if len(shares) != len(blocks) or not min(shares) > 0 or not abs(total - 1) <= _SHARES:
            raise InvalidInputError(
                f"`shares` must be {len(blocks)} numbers above 0 that sum to 1, got {shares}."
            )
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "shares", shares)

    def __repr__(self) -> str:
        return f"<Projection {self.kind} of {self.width} columns to {self.dims}, {self.digest}>"

    @classmethod
    def fit(
        cls,
        vectors: Any,
        ids: Any = None,
        *,
        kind: str | float = "pairs",
        threads: int | None = None,
    ) -> Projection:
        """Learn the projection that suits a collection, without labels.

        With the mean m and the covariance U diag(l) U' of the vectors, each over its norm, a power
        p whitens: x' = (l + 0.001 l_max)^(-p) U' (x - m). "pairs" learns from what CAS puts
        together: with c = x - m over its norm, C the covariance of all c and W that of the
        differences of partners, A = W^(-1/2) and A C A' = V diag(t) V', s = max(t - 1, 0),

            z = diag(sqrt(s / (1 + 2 s))) V' A c, over its norm

        Directions in which items of one kind differ as much as any two items vanish. Where there is
        nothing to learn the identity is returned; ``reason`` says why.

        Parameters
        ----------
        vectors : (n, d) vectors to search in; of many, a sample is learnt from
        ids : (n,) labels: rows of one label are the pairs, instead of those that CAS finds. None
            for a row without one, if they are text, or -1 if they are numbers: such rows keep the
            pairs that CAS finds.
        kind : "pairs"; "views", half-whitened and by pairs side by side; or a power between 0 and
            0.5: 0 only centres, 0.25 is half-whitening, 0.5 makes all variances equal
        threads : how many threads to use; never changes the result

        Examples
        --------
        >>> import numpy as np, kinrank
        >>> data = kinrank.datasets.load("toy")
        >>> learnt = kinrank.Projection.fit(data.gallery.features)
        >>> kinrank.CAS(whiten=learnt).rerank(data.query.features, data.gallery.features, k=5).k
        5
        """
        from kinrank.projection.kinds import check_kind, fit_kind

        matrix = as_matrix("vectors", vectors)
        return fit_kind([("vectors", matrix)], check_kind("kind", kind), ids, Runner.of(threads))

    @property
    def width(self) -> int:
        """The number of columns of a vector."""
        return len(self.mean)

    @property
    def dims(self) -> int:
        """The number of dimensions that come out."""
        return len(self.matrix)

    @cached_property
    def digest(self) -> str:
        """What tells it from others."""
        content = self.mean.tobytes() + np.ascontiguousarray(self.matrix).tobytes()
        if len(self.blocks) > 1:
            content += repr((self.blocks, self.shares)).encode()
        return hashlib.sha256(content).hexdigest()[:12]

    @property
    def learnt(self) -> bool:
        """Whether it was learnt from pairs, or would have been if there were any to learn from."""
        return self.kind in ("pairs", "views", "identity") and self.rows > 0

    def outgrown(self, rows: int) -> bool:
        """Whether a collection of ``rows`` has grown so much that it is time to learn again."""
        return self.learnt and rows >= GROWN * self.rows

    def transform(self, vectors: Any) -> Floats:
        """Vectors (n, d) as methods rank them: (n, dims) float32 of unit norm.

        Each is divided by its norm first. A row has the same bits with any other rows beside it;
        one that is the mean becomes zero.
        """
        matrix = as_matrix("vectors", vectors)
        if matrix.shape[1] != self.width:
            raise InvalidInputError(
                f"`vectors` must have {self.width} columns for this projection, "
                f"got {matrix.shape[1]}."
            )
        return as_vectors(("vectors", matrix), onto=self)

    def apply(self, rows: Any, dims: int | None = None, *, normalize: bool = True) -> Any:
        """Project ``rows`` (..., d) as they are; keep the first ``dims`` dimensions, or all."""
        array = finite_floats("rows", rows, np.float32)
        if array.ndim < 1 or array.shape[-1] != self.width:
            raise InvalidInputError(
                f"`rows` must have {self.width} columns for this projection, "
                f"got shape {array.shape}."
            )
        if len(self.blocks) > 1 and (dims is not None or not normalize):
            raise InvalidInputError(
                "`dims` and `normalize=False` are for projections of one block, got one of "
                f"{len(self.blocks)}, each of which is brought to unit norm."
            )
        kept = self.dims if dims is None else check_int("dims", dims, 1, self.dims)
        with np.errstate(over="ignore", invalid="ignore"):
            projected = (array - self.mean) @ self.matrix[:kept].T
        if not np.isfinite(projected).all():
            raise InvalidInputError(
                "`rows` must be about as large as those that the projection was made from, got "
                f"values up to {np.abs(array).max():.2g}: the result does not fit float32."
            )
        if not normalize:
            return projected
        parts = [
            unit(projected[..., place]) * np.float32(math.sqrt(share))
            for place, share in self._places(kept)
        ]
        return np.concatenate(parts, axis=-1)

    def project(self, rows: Floats) -> Floats:
        """Unit rows (n, d) as methods rank them; see ``transform``."""
        centred = rows.astype(np.float64) - self.mean
        columns, steps = self._columns
        sums = (centred @ columns) / steps
        grid = np.rint(sums)
        # In steps of the grid: no direction is longer than 2^_GRID of its own.
        lengths = np.sqrt((centred * centred).sum(axis=1, keepdims=True))
        unsure = lengths * (_UNSURE * self.width * 2.0**_GRID)
        row, column = np.nonzero(np.abs(sums - grid) >= 0.5 - unsure)
        again = (centred[row] * self.matrix[column]).sum(axis=1)
        grid[row, column] = np.rint(again / steps[column])
        grid *= steps
        for place, share in self._places(self.dims):
            part = grid[:, place]
            norms = np.sqrt((part * part).sum(axis=1, keepdims=True))
            part /= np.where(norms > 0, norms, 1) / math.sqrt(share)
        return np.asarray(grid, np.float32)

    def _places(self, kept: int) -> list[tuple[slice, float]]:
        """Where each block is in the first ``kept`` columns that come out, and its share."""
        if len(self.blocks) == 1:
            return [(slice(0, kept), 1.0)]
        ends = np.cumsum(self.blocks)
        return [
            (slice(int(end - size), int(end)), share)
            for end, size, share in zip(ends, self.blocks, self.shares, strict=True)
        ]

    @cached_property
    def _columns(self) -> tuple[Wide, Wide]:
        """The directions as (d, dims) columns, and the steps of their grids, (dims,)."""
        wide = self.matrix.astype(np.float64)
        lengths = np.sqrt((wide * wide).sum(axis=1))
        steps = np.ldexp(1.0, np.frexp(np.where(lengths > 0, lengths, 1))[1] - _GRID)
        return np.ascontiguousarray(wide.T), steps

    @property
    def words(self) -> dict[str, Any]:
        """All that is no array, as JSON can hold it."""
        return {
            "blocks": list(self.blocks),
            "shares": list(self.shares),
            "kind": self.kind,
            "reason": self.reason,
            "rows": self.rows,
        }

    @classmethod
    def of_words(cls, mean: Any, matrix: Any, words: Mapping[str, Any]) -> Projection:
        """The projection of its arrays and ``words``; a ValueError where these are no such."""
        blocks = words["blocks"]
        shares = words["shares"]
        kind = words["kind"]
        reason = words["reason"]
        rows = words["rows"]
        whole = isinstance(blocks, list) and all(type(size) is int for size in blocks)
        real = isinstance(shares, list) and all(type(share) is float for share in shares)
        if not whole or not real or not isinstance(kind, str) or not isinstance(reason, str):
            raise ValueError(f"a projection of {blocks!r}, {shares!r}, {kind!r}, {reason!r}")
        if type(rows) is not int or rows < 0:
            raise ValueError(f"a projection fitted to {rows!r} rows")
        return cls(mean, matrix, tuple(blocks), tuple(shares), kind, reason, rows)

    def save(self, path: PathLike) -> None:
        """Write to ``path`` in the safetensors format, whole or not at all."""
        arrays = {"mean": self.mean, "matrix": self.matrix}
        save_safetensors(path, arrays, {"projection": json.dumps(self.words)})

    @classmethod
    def load(cls, path: PathLike) -> Projection:
        """Read what ``save`` wrote; nothing is executed."""
        check_path("path", path)
        with reading(path, "a projection saved by kinrank"):
            arrays, about = load_safetensors(path)
            if set(arrays) != {"mean", "matrix"}:
                raise ValueError(f"arrays {sorted(arrays)} instead of `matrix` and `mean`")
            if "projection" not in about:  # arrays that somebody else wrote
                return cls(arrays["mean"], arrays["matrix"])
            try:
                words = dict(json.loads(about["projection"]))
                return cls.of_words(arrays["mean"], arrays["matrix"], words)
            except (KeyError, TypeError, RecursionError) as error:
                raise ValueError(f"no words of a projection: {error}") from error

    def to_onnx(self, path: PathLike) -> None:
        """Write the projection as a network in the ONNX format, from ``vectors`` to ``projected``.

        It computes what ``transform`` does, in float32 and without its rounding.
        """
        graph = OnnxGraph("projection")
        rows = graph.node("LpNormalization", ["vectors"], "rows", axis=1, p=2)
        centred = graph.node("Sub", [rows, graph.weight("mean", self.mean)], "centred")
        parts = []
        for number, (place, share) in enumerate(self._places(self.dims)):
            directions = graph.weight(f"matrix{number}", self.matrix[place].T)
            sums = graph.node("MatMul", [centred, directions], f"sums{number}")
            block = graph.node("LpNormalization", [sums], f"block{number}", axis=1, p=2)
            scale = graph.weight(f"share{number}", np.array([math.sqrt(share)]))
            parts.append(graph.node("Mul", [block, scale], f"part{number}"))
        graph.node("Concat", parts, "projected", axis=1)
        model = graph.model({"vectors": ["n", self.width]}, {"projected": ["n", self.dims]})
        with replacing(Path(check_path("path", path))) as file:
            file.write(model)


def identity(width: int, reason: str) -> Projection:
    """The projection that leaves unit rows what they are."""
    mean = np.zeros(width, np.float32)
    return Projection(mean, np.eye(width, dtype=np.float32), kind="identity", reason=reason)
