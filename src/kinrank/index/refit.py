"""All rows of an index under other parameters: the neighbours stay, the stages run again.

What was made is kept for the next query. Parameters that only the ranking knows need no stage.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.index.build import build_from_vectors
from kinrank.index.distances import encoding_rows, row_distances
from kinrank.index.engine import Engine
from kinrank.index.refit_rows import Sets, completed, only, refit_state, seen_from
from kinrank.index.search import search_of
from kinrank.index.state import State, check_online, resolved
from kinrank.kernels.layout import rows_around
from kinrank.methods.cas import CASMethod
from kinrank.parallel import Runner
from kinrank.runs.execution import Execution
from kinrank.search.exact import exact_neighbors
from kinrank.stages import clusters
from kinrank.stages.divergence import Divergence
from kinrank.stages.sparse import transposed
from kinrank.types import Floats, Ints, Neighbors, SparseRows

ROWS = 50_000  # more would take longer than anybody waits
# rows times k1 that are made first, and how exactly
_AROUND = 60_000
_ROUGH = 1e-4
FARTHEST = {"k1": 100, "k2": 20}  # where the sliders of the page end
_BYTES = 1 << 30  # that are kept, the newest not counted
_SETS = 8  # of clusters that are kept
_RANKING = {"variant", "omega", "geodesic", "whiten"}  # what no stage depends on
_CLUSTERS = ("k1", "k2", "clusters", "self_counts")  # what clusters depend on

Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Refit:
    """An engine with other parameters.

    around : how many rows were made; 0 for all of them
    """

    engine: Engine
    around: int = 0

    def distances(self, row: int) -> Floats:
        """d* from a row to all rows, (n,) by row; infinite to itself."""
        return row_distances(self._seen_from(row), row)

    def _seen_from(self, row: int) -> Engine:
        """An engine that has the columns of F' which the row has; paths need none."""
        engine = self.engine
        if engine.state.columns.nnz or engine.state.paths is not None:
            return engine
        with engine.workspace() as space:
            encoding = encoding_rows(engine, np.array([row], np.int32), space)
        return Engine(seen_from(engine.state, encoding.indices), engine.searcher)


@dataclass(eq=False)
class _Stages:
    """The stages over all rows, or over those ``around`` some, ascending.

    paths : None while nobody asked for them
    """

    state: State
    paths: SparseRows | None = None
    around: Ints | None = None

    def ranked_by(self, method: CASMethod, outside: bool, run: Runner) -> Refit | None:
        """With the parameters of the ranking; None if the paths are missing."""
        if outside:
            self.state = completed(self.state, run)
        if method.geodesic and self.paths is None:
            return None
        state = self.state
        chosen = {"omega": method.omega, "geodesic": method.geodesic}
        asked = state.asked.replace(**chosen)
        sized = state.method.replace(**chosen)
        paths = self.paths if method.geodesic else None
        state = replace(state, asked=asked, method=sized, paths=paths)
        return Refit(
            Engine(state, search_of(state)), 0 if self.around is None else len(self.around)
        )

    def find_paths(self, near: Neighbors, k: int, run: Runner) -> None:
        """The graph of shortest paths over the ``k`` nearest."""
        if self.paths is None:
            self.state = completed(self.state, run)
            rows = transposed(self.state.columns, run)
            pattern = clusters.nearest(near.indices, k, run)
            pattern = pattern if self.around is None else only(pattern, self.around)
            self.paths = Divergence.of(rows, self.state.method.divergence).pairs(pattern, run)

    def bytes_beside(self, other: State) -> int:
        """How much more is kept than that of another state."""
        parts = vars(self.state)
        others = vars(other)
        sizes = self.state.sizes().items()
        return sum(size for name, size in sizes if parts.get(name) is not others.get(name))


class Refits:
    """What was made for one state of an index."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._kept: OrderedDict[Key, _Stages] = OrderedDict()
        self._kept[_key(state.asked)] = _Stages(state, state.paths)
        self._sets: OrderedDict[Key, Sets] = OrderedDict()
        self._keeping = threading.Lock()
        self._making = threading.Lock()
        self._grouping = threading.Lock()
        self._lists = state.neighbors
        self._searching = threading.Lock()
        self._prepared = False
        self._last: tuple[Key | None, _Stages | None] = (None, None)  # of ``near``

    def known(self, method: CASMethod, *, outside: bool = False) -> Refit | None:
        """The index under ``method`` if that was made before; outside : for vectors of no row."""
        stages = None if self.reason(method) else self._find(method)
        return None if stages is None else stages.ranked_by(method, outside, Runner(1))

    def near(
        self, method: CASMethod, starts: Ints, run: Runner, *, outside: bool = False
    ) -> Refit | None:
        """The index under ``method`` as it is around some rows; None if lists are too short for it.

        Rows that are many steps away are made as if they had nothing in common with any other.
        """
        rough = method.replace(tol=max(method.tol, _ROUGH))
        sized = resolved(rough.replace(geodesic=False), len(self.state))
        paths = min(method.geodesic_k, len(self.state)) if method.geodesic else 0
        if self.reason(method) or self._lists.k < max(sized.list_length(), paths):
            return None
        key = (_key(rough), starts.tobytes())
        last, stages = self._last
        if last != key or stages is None:
            stages = self._stages(rough, run, self._around(starts, sized, run))
            self._last = (key, stages)
        if paths:
            stages.find_paths(self._lists, paths, run)
        return stages.ranked_by(method, outside, run)

    def _around(self, starts: Ints, method: CASMethod, run: Runner) -> Ints:
        """Rows that are few steps away, ascending."""
        lists = self._lists.indices
        size = min(max(_AROUND // method.k1, 800), 3_000)
        # Rows that nobody has in a list have others in theirs: the nearest tell.
        first = np.ascontiguousarray(lists[:, : method.k2 + 1])
        near = transposed(clusters.regular(first, None, len(lists)), run)
        k = min(method.k1 + 1, lists.shape[1])
        return np.sort(rows_around(starts, lists, k, near.indptr, near.indices, size))

    def make(self, method: CASMethod, run: Runner, *, outside: bool = False) -> Refit | None:
        """The index under ``method``, as if it had been built so; None where there is a reason."""
        if self.reason(method):
            return None
        with self._making:
            stages = self._find(method)
            if stages is None:
                stages = self._stages(method, run)
                self._keep(method, stages)
            if method.geodesic:
                k = min(method.geodesic_k, len(self.state))
                stages.find_paths(self._longer(k, run), k, run)
            return stages.ranked_by(method, outside, run)

    def reason(self, method: CASMethod) -> str:
        """Why all rows cannot be ranked by ``method``; empty if they can."""
        if len(self.state) > ROWS:
            return f"there are more than {ROWS:,} rows"
        if method.metric != self.state.asked.metric:
            return "the neighbours are those of another metric"
        try:
            check_online(method.replace(geodesic=False))
        except InvalidInputError as error:
            return str(error)
        return ""

    def own_paths(self, method: CASMethod) -> bool:
        """Whether the paths of ``method`` are those of the index itself."""
        return self.state.paths is not None and _key(method) == _key(self.state.asked)

    def prepare(self) -> None:
        """Do what sliders would wait for, once, on a thread of its own."""
        with self._keeping:
            if self._prepared or len(self.state) > ROWS:
                return
            self._prepared = True
        threading.Thread(target=self._prepare, daemon=True).start()

    def _prepare(self) -> None:
        """Load the kernels, and search lists that are long enough for every slider."""
        small = CASMethod(k1=3, k2=2)
        few = Refits(build_from_vectors(small, np.eye(8), None, None, Execution(Runner(1))))
        asked = few.state.asked.replace(mu=1)
        for made in (
            few.near(asked, few.state.position[:1], Runner(1)),
            few.make(asked, Runner(1)),
        ):
            assert made is not None
            made.distances(0)
        asked = self.state.asked.replace(**FARTHEST, geodesic=True)
        self._longer(resolved(asked, len(self.state)).list_length(), Runner(1))

    def _find(self, method: CASMethod) -> _Stages | None:
        with self._keeping:
            stages = self._kept.get(_key(method))
            if stages is not None:
                self._kept.move_to_end(_key(method))
            return stages

    def _keep(self, method: CASMethod, stages: _Stages) -> None:
        """Keep what was made, and let go of what was not asked for longest."""
        with self._keeping:
            sizes = {key: kept.bytes_beside(self.state) for key, kept in self._kept.items()}
            del sizes[_key(self.state.asked)]  # which always stay
            total = sum(sizes.values())
            for key, size in sizes.items():
                if total <= _BYTES:
                    break
                del self._kept[key]
                total -= size
            self._kept[_key(method)] = stages

    def _stages(self, method: CASMethod, run: Runner, around: Ints | None = None) -> _Stages:
        asked = method.replace(geodesic=False)
        method = resolved(asked, len(self.state))
        length = method.list_length()
        lists = self._longer(length, run)
        ids = lists.indices[:, :length]
        d = lists.distances[:, :length]
        neighbors = Neighbors(np.ascontiguousarray(ids), np.ascontiguousarray(d), lists.farthest)
        sets = self._clusters(method, neighbors, run, around)
        source = replace(self.state, asked=asked, method=method, neighbors=neighbors)
        return _Stages(refit_state(source, sets, run, around), around=around)

    def _clusters(
        self, method: CASMethod, lists: Neighbors, run: Runner, around: Ints | None
    ) -> Sets:
        key = tuple(getattr(method, name) for name in _CLUSTERS)
        if around is not None and key not in self._sets:
            return Sets.of(method, lists, run, around)
        with self._grouping:
            if key not in self._sets:
                self._sets[key] = Sets.of(method, lists, run)
                if len(self._sets) > _SETS:
                    self._sets.popitem(last=False)
            self._sets.move_to_end(key)
            return self._sets[key]

    def _longer(self, length: int, run: Runner) -> Neighbors:
        """Lists of ``length`` or more; searched if those that are known are shorter."""
        if self._lists.k < length:
            with self._searching:
                if self._lists.k < length:
                    state = self.state
                    # Longer than asked for: the slider may move on. By name, which ties go by.
                    wanted = min(len(state), 1 << (length - 1).bit_length())
                    lists = exact_neighbors(state.vectors[state.position], wanted, run)
                    self._lists = state.layout.neighbors(lists, run)
        return self._lists


def _key(method: CASMethod) -> Key:
    names = (field.name for field in fields(method))
    return tuple(getattr(method, name) for name in names if name not in _RANKING)
