"""What is served: an index, and what is known of its rows."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kinrank._version import __version__
from kinrank.errors import InvalidInputError, UnknownIdError, UnknownNameError
from kinrank.index import Index
from kinrank.index.engine import row_distances
from kinrank.index.explain import Explanation, explain
from kinrank.index.refit import Refits
from kinrank.index.state import State
from kinrank.methods.base import Method
from kinrank.parallel import Runner
from kinrank.pool import rerank_pool
from kinrank.registry import make_method, method_class, ready_methods
from kinrank.serve.describe import Describer
from kinrank.serve.labels import Labels
from kinrank.serve.metrics import Metrics
from kinrank.serve.pictures import Pictures
from kinrank.serve.problems import Problem
from kinrank.serve.settings import Settings
from kinrank.types import Floats, Ranking

if TYPE_CHECKING:
    from kinrank.serve.curves import Curves

_SLOW = frozenset({"gss"})  # learns anew for every query


def served_methods() -> list[str]:
    """The methods that answer at once and read no files."""
    return [name for name in ready_methods() if name not in _SLOW]


def served_method(name: str, params: Mapping[str, Any]) -> Method:
    """A method by its name; parameters that name files of this machine are refused."""
    if name not in served_methods():
        raise UnknownNameError("method", name, served_methods())
    files = {one.name for one in fields(method_class(name)) if one.metadata.get("cli") is str}
    if files & params.keys() or "method" in params:
        raise InvalidInputError("`params` must not name files or the method here.")
    return make_method(name, **params)


@dataclass(frozen=True, eq=False)
class View:
    """The rows of an index as people know them, in the order of its ids.

    keys : ids as text; names : what they are called; labels : "" where none is known
    codes : (n,) a number for each label, -1 for none
    """

    state: State
    keys: list[str]
    names: list[str]
    labels: list[str]

    @cached_property
    def codes(self) -> npt.NDArray[np.int64]:
        """See the class."""
        if not any(self.labels):
            return np.full(len(self.labels), -1, np.int64)
        words = np.array(self.labels)
        codes = np.unique(words, return_inverse=True)[1].astype(np.int64).ravel()
        codes[words == ""] = -1
        return codes


@dataclass(eq=False)
class Service:
    """An index with names, labels and pictures of its rows.

    Parameters
    ----------
    index : with its own vectors
    settings : limits, and whether rows may change
    title : what the page calls it
    labels : saved with the index when it changes
    names : by id; rows without a name are called by their id
    pictures, describer : None where there are none
    """

    index: Index
    settings: Settings
    title: str = "index"
    labels: Labels = field(default_factory=Labels)
    names: Mapping[Any, str] = field(default_factory=dict)
    pictures: Pictures | None = None
    describer: Describer | None = None
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        if len(self.index.engine.state.vectors) == 0:
            raise InvalidInputError(
                "`index` must have its own vectors to be served, got one over a store."
            )
        self._view: View | None = None
        self._refits: Refits | None = None
        self.drawn: Curves | None = None  # of ``curves``, when they were asked for
        # Apart, since the page asks for the one on the loop while threads make the other.
        self._viewing, self._refitting = threading.Lock(), threading.Lock()

    @property
    def view(self) -> View:
        """The rows as they are now."""
        state = self.index.engine.state
        with self._viewing:
            if self._view is None or self._view.state is not state:
                ids = state.ids.tolist()
                keys, words = [str(one) for one in ids], self.labels.words
                names = [str(self.names.get(one, one)) for one in ids]
                self._view = View(state, keys, names, [words.get(one, "") for one in ids])
            return self._view

    def refits(self, state: State) -> Refits:
        """The rows under other parameters; what was made for rows as they were before is gone."""
        with self._refitting:
            if self._refits is None or self._refits.state is not state:
                self._refits = Refits(state)
            return self._refits

    def warm(self) -> None:
        """Load or compile what answers need, so that the first of them takes no longer."""
        engine = self.index.engine
        engine.answer(engine.state.vectors[:1], 1, Runner(1))
        engine.base(engine.state.vectors[:1], 1, Runner(1))
        row_distances(engine, 0)

    def typed(self, text: str) -> int | str:
        """An id from a path, as those of the index."""
        if self.index.ids.dtype.kind == "U":
            return text
        try:
            return int(text)
        except ValueError:
            raise UnknownIdError(f"There is no row with the id {text!r}.") from None

    def search(self, vectors: Any, k: int, *, base: bool) -> Ranking:
        """The first ``k`` rows of each vector, on the thread that asks."""
        self.metrics.searched(len(vectors))
        return self.index.search(vectors, k, base=base, threads=1)

    def rerank(self, query: Any, candidates: Any, **options: Any) -> Ranking:
        """The candidates of one query in their new order."""
        self.metrics.searched(1)
        method = served_method(options.pop("method"), options.pop("params"))
        options["k"] = min(options["k"], len(candidates))
        return rerank_pool(query, candidates, method, threads=1, **options)

    def explain(self, query: str | None, vector: Any, item: str) -> Explanation:
        """Why an item has its distance from a row, or from a vector."""
        engine = self.index.engine
        if query is None:
            return self.index.explain(vector, self.typed(item))
        name = int(engine.state.table.places([self.typed(item)])[0])
        return explain(engine, self.placed(self.typed(query)), name)

    def placed(self, one: Any) -> Floats:
        """The vector of a row as the index keeps it, (1, d)."""
        return self.index.vectors([one])

    def add(self, vectors: Any, ids: Any, labels: list[str] | None, *, update: bool) -> int:
        """Add or change rows, and save; returns how many there are."""
        if labels is not None and len(labels) != len(vectors):
            raise InvalidInputError(
                f"`labels` must be one for each vector ({len(vectors)}), got {len(labels)}."
            )
        draft, known = self.index.draft(), self.labels  # what is served stays if this fails
        if update:
            draft.update(vectors, ids if ids is not None else [], threads=1)
        else:
            draft.add(vectors, ids, threads=1)
        # New rows are the last ones, and so are those that changed.
        own = draft.ids[len(draft) - len(vectors) :].tolist()
        after = known.after_update if update else known.after_adding
        return self._saved(draft, after(own, labels))

    def remove(self, text: str) -> int:
        """Remove a row, and save; returns how many there are."""
        one, draft = self.typed(text), self.index.draft()
        draft.remove([one], threads=1)
        return self._saved(draft, self.labels.after_removing(one))

    def _saved(self, draft: Index, labels: Labels) -> int:
        """Save a draft, and serve it from then on, so that memory, file and answer agree."""
        if draft.path is not None:  # one that was made in memory stays there
            labels.keep(draft)
            try:
                draft.save()
            except OSError as error:
                reason = error.strerror or str(error)
                raise Problem(
                    507, "not-saved", f"The index could not be saved ({reason}), so nothing was "
                    "changed. Send it again when that is put right.",
                ) from error  # fmt: skip
        with self._viewing:
            self.index.adopt(draft)
            self.labels, self._view = labels, None
        return len(self.index)

    def gauges(self) -> dict[str, tuple[str, float]]:
        """What `/metrics` tells of the index."""
        sizes = self.index.engine.state.sizes()
        return {
            "kinrank_index_rows": ("Rows of the index.", len(self.index)),
            "kinrank_index_columns": ("Columns of a vector.", self.index.width),
            "kinrank_index_bytes": ("Bytes of the index.", sum(sizes.values())),
        }

    def info(self) -> dict[str, Any]:
        """What `/v1/info` tells."""
        limits = self.settings
        return {
            "title": self.title,
            "rows": len(self.index),
            "columns": self.index.width,
            "ids": "text" if self.index.ids.dtype.kind == "U" else "integers",
            "parameters": asdict(self.index.method),
            "labels": bool(self.labels.words),
            "images": self.pictures is not None,
            "model": None if self.describer is None else self.describer.name,
            "writable": limits.writable,
            "methods": served_methods(),
            "limits": {
                "body": limits.max_body,
                "batch": limits.max_batch,
                "k": limits.max_k,
                "pool": limits.max_pool,
                "seconds": limits.timeout,
            },
        }

    def health(self) -> dict[str, Any]:
        """What `/health` tells."""
        return {"status": "ok", "version": __version__, "rows": len(self.index)}
