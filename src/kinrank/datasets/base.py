"""What a data set is: two lists of images or vectors, what is right, and how it is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.latex import escaped
from kinrank.metrics.judgements import judged
from kinrank.metrics.protocols import reid, retrieval, revisited, single_shot
from kinrank.metrics.results import Evaluation
from kinrank.optional import require
from kinrank.trec import Qrels
from kinrank.validation import as_matrix, as_vectors

Protocol: TypeAlias = Literal["reid", "revisited", "retrieval", "judged", "single_shot"]

# What the field prints first for each protocol.
HEADLINES: dict[str, tuple[str, ...]] = {
    "reid": ("mAP", "R1", "mINP"),
    "revisited": ("mAP E", "mAP M", "mAP H"),
    "retrieval": ("mAP", "hit@1", "recall@10"),
    "judged": ("nDCG@10", "mAP", "recall@100"),
    "single_shot": ("R1", "R5", "R10"),
}
RIGHT = 1
WRONG = 0
NOT_COUNTED = -1


class StackedRows:
    """Two-dimensional arrays of one width, one below the other: a gallery and many distractors.

    Rows are taken with a slice or an array of row numbers, as from an array; only those are read,
    so that parts may be mapped from disk. ``np.asarray`` copies the whole.
    """

    def __init__(self, *parts: npt.NDArray[Any]) -> None:
        widths = [part.shape[1] for part in parts]
        if len(set(widths)) != 1:
            raise InvalidInputError(f"`parts` must have one number of columns, got {widths}.")
        self.parts = parts
        self.shape = (sum(len(part) for part in parts), widths[0])
        self.dtype = np.result_type(*[part.dtype for part in parts])
        self.ndim = 2

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> npt.NDArray[Any]:
        if isinstance(rows, slice):
            numbers = np.arange(len(self))[rows]
        else:
            numbers = np.asarray(rows, np.int64)
        taken = np.empty((len(numbers), self.shape[1]), self.dtype)
        begin = 0
        for part in self.parts:
            here = (numbers >= begin) & (numbers < begin + len(part))
            taken[here] = part[numbers[here] - begin]
            begin += len(part)
        return taken

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("stacked rows cannot be had as an array without a copy")
        whole = np.concatenate(self.parts, axis=0)
        return whole if dtype is None else whole.astype(dtype, copy=False)


Rows: TypeAlias = npt.NDArray[Any] | StackedRows


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """The queries or the gallery.

    Attributes
    ----------
    labels, cams : (n,) identities or classes (for judged the names of queries and documents), and
        cameras; None where there are none
    paths : n file names below the folder of images; None for vectors only
    features : (n, d) vectors, in the order of ``paths`` and ``labels``; None until they are given
    pixels : (n, height, width) small grey images, 0 is black, for sets that have no files
    """

    labels: npt.NDArray[Any] | None = None
    cams: npt.NDArray[Any] | None = None
    paths: Sequence[str] | None = None
    features: Rows | None = None
    pixels: npt.NDArray[np.uint8] | None = None

    def __repr__(self) -> str:
        facts = [f"{len(self):,} rows"]
        if self.features is not None:
            facts.append(f"{self.features.shape[1]:,} columns")
        for name, column in (("labels", self.labels), ("cameras", self.cams)):
            if column is not None:
                facts.append(f"{len(np.unique(column)):,} {name}")
        return f"<Part of {', '.join(facts)}>"

    def __len__(self) -> int:
        for column in (self.paths, self.labels, self.features):
            if column is not None:
                return len(column)
        return 0

    def with_features(self, name: str, features: Any) -> Part:
        """The same with vectors, one for each image."""
        rows = features if isinstance(features, StackedRows) else as_matrix(name, features)
        if len(self) and len(rows) != len(self):
            raise InvalidInputError(
                f"`{name}` must have one row per image of the data set ({len(self)}), "
                f"got {len(rows)}."
            )
        return replace(self, features=rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Queries, gallery, ground truth and protocol.

    Attributes
    ----------
    name : for tables
    protocol : how a ranking is measured: reid, revisited, retrieval, judged or single_shot
    gnd : for revisited, one mapping per query with ``easy``, ``hard``, ``junk`` and perhaps ``bbx``
    qrels : for judged, the grade of each document that is relevant for a query
    images : the folder that ``paths`` are below
    query_rows : the gallery row that is the query itself, where the queries are in the gallery
    source : what ``load`` was called with, so that another process can do the same

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> data = kinrank.datasets.load("toy")
    >>> ranking = np.argsort(-(data.query.features @ data.gallery.features.T), axis=1)
    >>> round(data.evaluate(ranking).mAP, 2)
    0.24
    """

    name: str
    protocol: Protocol
    query: Part
    gallery: Part
    gnd: Sequence[Mapping[str, Any]] | None = None
    qrels: Qrels | None = None
    images: Path | None = None
    query_rows: npt.NDArray[Any] | None = None
    source: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for protocol, name in (("revisited", "gnd"), ("judged", "qrels")):
            if self.protocol == protocol and getattr(self, name) is None:
                raise InvalidInputError(
                    f"The protocol {protocol} needs its ground truth, `{name}`, which was not "
                    "given."
                )

    def __repr__(self) -> str:
        facts = [f"{len(self.query):,} queries", f"{len(self.gallery):,} in the gallery"]
        if self.gallery.features is not None:
            facts.append(f"{self.gallery.features.shape[1]:,} columns")
        return f"<Dataset {self.name}: {', '.join(facts)}, protocol {self.protocol}>"

    @property
    def headlines(self) -> tuple[str, ...]:
        """The metrics that tables show first."""
        return HEADLINES[self.protocol]

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics that ``evaluate`` tells."""
        first = np.zeros((len(self.query), 1), np.int32)
        return tuple(self.evaluate(first).per_query)

    def to_pandas(self) -> Any:
        """A row for each query and each gallery row: side, row, label, camera, path.

        A pandas DataFrame (extra ``pandas``); columns that the set does not have are left out.
        """
        pandas = require("pandas", extra="pandas", purpose="A table of pandas")
        frames = []
        for side, part in (("query", self.query), ("gallery", self.gallery)):
            known = {"label": part.labels, "camera": part.cams, "path": part.paths}
            columns = {name: list(column) for name, column in known.items() if column is not None}
            frames.append(pandas.DataFrame({"side": side, "row": range(len(part)), **columns}))
        return pandas.concat(frames, ignore_index=True)

    def to_latex(self) -> str:
        """A booktabs table of one row: how many queries, gallery rows, labels, cameras, columns."""
        facts = {
            "Queries": len(self.query),
            "Gallery": len(self.gallery),
            "Labels": _different(self.query.labels, self.gallery.labels),
            "Cameras": _different(self.query.cams, self.gallery.cams),
            "Columns": 0 if self.gallery.features is None else self.gallery.features.shape[1],
        }
        shown = {name: f"{count:,}" for name, count in facts.items() if count}
        return "\n".join(
            [
                r"% needs \usepackage{booktabs}",
                rf"\begin{{tabular}}{{l{'r' * len(shown)}}}",
                r"\toprule",
                rf"Set & {' & '.join(shown)} \\",
                r"\midrule",
                rf"{escaped(self.name)} & {' & '.join(shown.values())} \\",
                r"\bottomrule",
                r"\end{tabular}",
                "",
            ]
        )

    def with_features(self, query: Any, gallery: Any) -> Dataset:
        """The same data set with vectors, in the order of its images."""
        return replace(
            self,
            query=self.query.with_features("query", query),
            gallery=self.gallery.with_features("gallery", gallery),
            source=None,
        )

    def with_unit_rows(self) -> Dataset:
        """The same with every vector divided by its norm, as float32."""
        sides: dict[str, Any] = {"query": self.query, "gallery": self.gallery}
        for side, part in sides.items():
            if part.features is None:
                raise InvalidInputError(
                    f"The {side} has no features to divide by their norms. Use `with_features` "
                    "first."
                )
            rows = as_vectors((side, np.asarray(part.features)), cosine=True)
            sides[side] = replace(part, features=rows)
        return replace(self, **sides, source=None)

    def with_distractors(self, features: Any, name: str = "distractors") -> Dataset:
        """The same with more gallery rows that are right for no query, such as the +1M set.

        Nothing is copied: the vectors are read from where they are.
        """
        rows = as_matrix("features", features)
        if self.gallery.features is None:
            raise InvalidInputError(
                "This data set has no features yet, so no distractors can be added. "
                "Use `with_features` first."
            )
        stacked = getattr(self.gallery.features, "parts", (self.gallery.features,))
        extra = len(rows)
        labels = self.gallery.labels
        cams = self.gallery.cams
        paths = self.gallery.paths
        gallery = Part(
            labels=None if labels is None else _extend(labels, _unused_label(self), extra),
            # Cameras matter for images of the query's identity only, and these are of nobody.
            cams=None if cams is None else _extend(cams, cams[0], extra),
            paths=None if paths is None else [*paths, *[""] * extra],
            features=StackedRows(*stacked, rows),
        )
        return replace(self, name=f"{self.name}+{name}", gallery=gallery, source=None)

    def evaluate(self, ranking: Any) -> Evaluation:
        """Measure a ranking by the protocol of this data set."""
        if self.protocol == "revisited":
            assert self.gnd is not None
            return revisited(ranking, self.gnd, n_gallery=len(self.gallery) or None)
        if self.protocol == "judged":
            assert self.qrels is not None
            return judged(ranking, self.qrels, self.query.labels, self._documents())
        labels = (self.needed_labels("query"), self.needed_labels("gallery"))
        cams = (self.query.cams, self.gallery.cams)
        if self.protocol == "reid":
            return reid(ranking, *labels, *cams)
        if self.protocol == "single_shot":
            return single_shot(ranking, *labels, *cams)
        return retrieval(ranking, *labels, query_rows=self.query_rows)

    def relevance(self, query: int) -> npt.NDArray[np.int8]:
        """For each gallery row: 1 right, 0 wrong, -1 not counted (Revisited: level Medium)."""
        codes = np.zeros(len(self.gallery), np.int8)
        if self.gnd is not None:
            entry = self.gnd[query]
            codes[np.asarray([*entry["easy"], *entry["hard"]], np.int64)] = RIGHT
            codes[np.asarray(entry["junk"], np.int64)] = NOT_COUNTED
            return codes
        if self.qrels is not None:
            name = str(query if self.query.labels is None else self.query.labels[query])
            grades = self.qrels.get(name, {})
            for row, document in enumerate(self._documents()):
                if grades.get(str(document), 0) > 0:
                    codes[row] = RIGHT
            return codes
        labels = self.needed_labels("gallery")
        codes[labels == self.needed_labels("query")[query]] = RIGHT
        if self.protocol in ("reid", "single_shot"):
            if labels.dtype.kind in "iu":
                codes[labels == -1] = NOT_COUNTED
            if self.query.cams is not None and self.gallery.cams is not None:
                same_camera = self.gallery.cams == self.query.cams[query]
                codes[(codes == RIGHT) & same_camera] = NOT_COUNTED
        if self.query_rows is not None and self.query_rows[query] >= 0:
            codes[self.query_rows[query]] = NOT_COUNTED
        return codes

    def image(self, side: Literal["query", "gallery"], row: int) -> Path | None:
        """The file of an image, or None where there is none."""
        paths = getattr(self, side).paths
        if self.images is None or paths is None or not paths[row]:
            return None
        file = self.images / paths[row]
        return file if file.is_file() else None

    def _documents(self) -> Sequence[Any] | npt.NDArray[Any]:
        """The names of the gallery's rows; their numbers where there are none."""
        return range(len(self.gallery)) if self.gallery.labels is None else self.gallery.labels

    def needed_labels(self, side: str) -> npt.NDArray[Any]:
        """The labels of "query" or "gallery"; an error where there are none."""
        labels = getattr(self, side).labels
        if labels is None:
            raise InvalidInputError(
                f"The protocol {self.protocol} needs labels, and the {side} has none."
            )
        return np.asarray(labels)


def _different(*columns: npt.NDArray[Any] | None) -> int:
    """How many different values there are; 0 for columns that a set does not have."""
    known = [np.unique(column) for column in columns if column is not None]
    return len(np.unique(np.concatenate(known))) if known else 0


def _extend(column: npt.NDArray[Any], value: Any, extra: int) -> npt.NDArray[Any]:
    return np.concatenate([column, np.full(extra, value)])


def _unused_label(data: Dataset) -> Any:
    """A label that is no query's and not junk."""
    labels = np.concatenate([data.needed_labels("query"), data.needed_labels("gallery")])
    if labels.dtype.kind in "iu":
        return max(int(labels.max()), 0) + 1
    return f"{max(labels.tolist(), key=len)}+"
