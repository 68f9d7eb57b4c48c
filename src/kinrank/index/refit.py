"""All rows of an index under other parameters: neighbours stay, the stages are computed again.

This is what the sliders of the service's page move. ``Refits`` belongs to one ``State`` and keeps
what it computed for the next query. There are two answers to the same question: over all rows
(``over_all_rows``), and at once over a few thousand rows around the query (``around_rows``).

Parameters that only the ranking reads (omega, geodesic) need no stage; clusters depend on k1 and k2
and few others, and are kept apart, as most sliders leave them as they are. ``run`` says how many
threads work, and changes no result.
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
from kinrank.index.refit_stages import (
    Clusters,
    only_rows,
    refit_state,
    with_all_columns,
    with_columns,
)
from kinrank.index.search import search_of
from kinrank.index.state import State, check_online, resolved
from kinrank.kernels.layout import rows_around
from kinrank.methods.cas import CASMethod
from kinrank.parallel import Runner
from kinrank.runs.execution import Execution
from kinrank.search.exact import exact_neighbors
from kinrank.stages import clusters as cluster_stage
from kinrank.stages.divergence import Divergence
from kinrank.stages.sparse import transposed
from kinrank.types import Floats, Ints, Neighbors, SparseRows

ROWS = 50_000  # of an index; more would take longer than anybody waits
_ROWS_TIMES_K1 = 60_000  # this over k1 is how many rows around a query are computed
_ROUGH = 1e-4  # the least ``tol`` they are computed with
FARTHEST = {"k1": 100, "k2": 20}  # where the sliders of the page end
_BYTES = 1 << 30  # of results that are kept, the newest not counted
_CLUSTERS_KEPT = 8  # for so many settings of the parameters that they depend on
_RANKING_PARAMETERS = {"variant", "omega", "geodesic", "whiten"}  # which no stage reads
_CLUSTER_PARAMETERS = ("k1", "k2", "clusters", "self_counts")

Key: TypeAlias = tuple[Any, ...]  # the values of parameters, for a dict


@dataclass(frozen=True, eq=False)
class Refit:
    """An engine under other parameters.

    around : how many rows around the query were computed; 0 for all rows
    """

    engine: Engine
    around: int = 0

    def distances(self, row: int) -> Floats:
        """d* from a row to all rows, (n,) float32 by row; infinite to itself."""
        return row_distances(self._with_columns_of(row), row)

    def _with_columns_of(self, row: int) -> Engine:
        """An engine whose state has at least the columns of F' in which ``row`` has an entry.

        ``refit_state`` leaves all columns out; shortest paths need none.
        """
        engine = self.engine
        if engine.state.columns.nnz or engine.state.paths is not None:
            return engine
        with engine.workspace() as space:
            encoding = encoding_rows(engine, np.array([row], np.int32), space)
        return Engine(with_columns(engine.state, encoding.indices), engine.searcher)


@dataclass(eq=False)
class _RefitStages:
    """The stages under one setting of the parameters that they read.

    state : perhaps without columns of F', see ``refit_state``
    paths : the graph of shortest paths; None as long as no query needed it
    rows : the rows that were computed, ascending; None for all
    """

    state: State
    paths: SparseRows | None = None
    rows: Ints | None = None

    def ranked_by(self, method: CASMethod, *, for_vectors: bool, run: Runner) -> Refit | None:
        """An engine with the parameters of the ranking that ``method`` has: omega and geodesic.

        Of a state, ``unresolved`` is the method as the user gave it, ``method`` the one with sizes
        that fit the rows.

        for_vectors : whether queries are vectors that are no rows: these need all columns of F',
            which are then computed and kept in ``state``

        None if shortest paths are wanted and ``find_paths`` did not make them.
        """
        if for_vectors:
            self.state = with_all_columns(self.state, run)
        if method.geodesic and self.paths is None:
            return None
        state = self.state
        ranking = {"omega": method.omega, "geodesic": method.geodesic}
        state = replace(
            state,
            unresolved=state.unresolved.replace(**ranking),
            method=state.method.replace(**ranking),
            paths=self.paths if method.geodesic else None,
        )
        n_computed = 0 if self.rows is None else len(self.rows)
        return Refit(Engine(state, search_of(state)), n_computed)

    def find_paths(self, lists: Neighbors, k: int, run: Runner) -> None:
        """Set ``self.paths``, the graph of shortest paths, if it is None.

        Its edges are d' on the pairs of which one is among the ``k`` nearest of the other; only on
        pairs of ``self.rows`` where these are not all. ``self.state`` gets all columns of F'.

        lists : the nearest rows of each row, (n, at least k)
        """
        if self.paths is None:
            self.state = with_all_columns(self.state, run)
            encodings = transposed(self.state.columns, run)
            pairs = cluster_stage.nearest(lists.indices, k, run)
            if self.rows is not None:
                pairs = only_rows(pairs, self.rows)
            divergence = Divergence.of(encodings, self.state.method.divergence)
            self.paths = divergence.pairs(pairs, run)

    def bytes_beside(self, other: State) -> int:
        """How many bytes the arrays take that another state does not share."""
        values = vars(self.state)
        other_values = vars(other)
        return sum(
            size
            for name, size in self.state.sizes().items()
            if values.get(name) is not other_values.get(name)
        )


class Refits:
    """What was computed for one state of an index under other parameters; for several threads.

    state : of the index
    longest_lists : the neighbour lists of all rows, as long as they were searched so far
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self._kept: OrderedDict[Key, _RefitStages] = OrderedDict()  # used last at the end
        self._kept[_stage_key(state.unresolved)] = _RefitStages(state, state.paths)
        self._kept_lock = threading.Lock()
        self._making_lock = threading.Lock()
        self._clusters: OrderedDict[Key, Clusters] = OrderedDict()
        self._clusters_lock = threading.Lock()
        self.longest_lists = state.neighbors
        self._lists_lock = threading.Lock()
        self._is_prepared = False
        # The last stages of ``around_rows``, and for which parameters and rows.
        self._last_around: tuple[Key | None, _RefitStages | None] = (None, None)

    def kept(self, method: CASMethod, *, for_vectors: bool = False) -> Refit | None:
        """The index under ``method`` over all rows, if its stages are there; None otherwise.

        for_vectors : whether queries are vectors that are no rows of the index
        """
        stages = None if self.obstacle(method) else self._find(method)
        if stages is None:
            return None
        return stages.ranked_by(method, for_vectors=for_vectors, run=Runner(1))

    def over_all_rows(
        self, method: CASMethod, run: Runner, *, for_vectors: bool = False
    ) -> Refit | None:
        """The index under ``method``, as if built so; None where there is an ``obstacle``."""
        if self.obstacle(method):
            return None
        with self._making_lock:
            stages = self._find(method)
            if stages is None:
                stages = self._compute_stages(method, run)
                self._keep(method, stages)
            if method.geodesic:
                k = min(method.geodesic_k, len(self.state))
                stages.find_paths(self.lists(k, run), k, run)
            return stages.ranked_by(method, for_vectors=for_vectors, run=run)

    def around_rows(
        self, method: CASMethod, starts: Ints, run: Runner, *, for_vectors: bool = False
    ) -> Refit | None:
        """The index under ``method`` as it is around the rows ``starts``, less exactly.

        Rows that are many steps away are taken to have nothing in common with any other. None where
        there is an obstacle, or the lists that were searched so far are too short.

        starts : where rows lie in the state, not the users' numbers; for_vectors : as in ``kept``
        """
        rough = method.replace(tol=max(method.tol, _ROUGH))
        fitted = resolved(rough.replace(geodesic=False), len(self.state))
        paths_k = min(method.geodesic_k, len(self.state)) if method.geodesic else 0
        if self.obstacle(method) or self.longest_lists.k < max(fitted.list_length(), paths_k):
            return None
        key = (_stage_key(rough), starts.tobytes())
        last_key, stages = self._last_around
        if last_key != key or stages is None:
            rows = self._rows_around(starts, fitted, run)
            stages = self._compute_stages(rough, run, rows)
            self._last_around = (key, stages)
        if paths_k:
            stages.find_paths(self.longest_lists, paths_k, run)
        return stages.ranked_by(method, for_vectors=for_vectors, run=run)

    def obstacle(self, method: CASMethod) -> str:
        """Why rows cannot be ranked by ``method``, in words; empty if they can."""
        if len(self.state) > ROWS:
            return f"there are more than {ROWS:,} rows"
        if method.metric != self.state.unresolved.metric:
            return "the neighbours are those of another metric"
        try:
            check_online(method.replace(geodesic=False))
        except InvalidInputError as error:
            return str(error)
        return ""

    def has_own_paths(self, method: CASMethod) -> bool:
        """Whether the shortest paths of ``method`` are those that the index itself has."""
        is_same = _stage_key(method) == _stage_key(self.state.unresolved)
        return self.state.paths is not None and is_same

    def lists(self, length: int, run: Runner) -> Neighbors:
        """Neighbour lists of all rows, ``length`` or longer; searched if those here are shorter."""
        if self.longest_lists.k < length:
            with self._lists_lock:
                if self.longest_lists.k < length:
                    state = self.state
                    # Longer than needed, as the slider may move on. By index, which ties go by.
                    longer = min(len(state), 1 << (length - 1).bit_length())
                    by_index = exact_neighbors(state.vectors[state.position], longer, run)
                    self.longest_lists = state.layout.neighbors(by_index, run)
        return self.longest_lists

    def prepare(self) -> None:
        """Do what the first move of a slider would wait for, once, on a thread of its own."""
        with self._kept_lock:
            if self._is_prepared or len(self.state) > ROWS:
                return
            self._is_prepared = True
        threading.Thread(target=self._prepare, daemon=True).start()

    def _prepare(self) -> None:
        """Load the kernels, and search lists that are long enough for every slider."""
        run = Runner(1)
        tiny_method = CASMethod(k1=3, k2=2)
        tiny = Refits(build_from_vectors(tiny_method, np.eye(8), None, None, Execution(run)))
        other_method = tiny.state.unresolved.replace(mu=1)
        for refit in (
            tiny.around_rows(other_method, tiny.state.position[:1], run),
            tiny.over_all_rows(other_method, run),
        ):
            assert refit is not None
            refit.distances(0)
        farthest = self.state.unresolved.replace(**FARTHEST, geodesic=True)
        self.lists(resolved(farthest, len(self.state)).list_length(), run)

    def _find(self, method: CASMethod) -> _RefitStages | None:
        """The stages under ``method``, if they are kept."""
        key = _stage_key(method)
        with self._kept_lock:
            stages = self._kept.get(key)
            if stages is not None:
                self._kept.move_to_end(key)
            return stages

    def _keep(self, method: CASMethod, stages: _RefitStages) -> None:
        """Keep the stages under ``method``, and let go of others until these fit into memory.

        Those that nobody used for longest go first; ``self._kept`` has them in this order.
        """
        with self._kept_lock:
            sizes = {key: kept.bytes_beside(self.state) for key, kept in self._kept.items()}
            del sizes[_stage_key(self.state.unresolved)]  # the index itself always stays
            total = sum(sizes.values())
            for key, size in sizes.items():
                if total <= _BYTES:
                    break
                del self._kept[key]
                total -= size
            self._kept[_stage_key(method)] = stages

    def _compute_stages(
        self, method: CASMethod, run: Runner, rows: Ints | None = None
    ) -> _RefitStages:
        """The stages under ``method``; rows : those alone, ascending, None for all."""
        unresolved = method.replace(geodesic=False)
        method = resolved(unresolved, len(self.state))
        length = method.list_length()
        lists = self.lists(length, run)
        neighbors = Neighbors(
            np.ascontiguousarray(lists.indices[:, :length]),
            np.ascontiguousarray(lists.distances[:, :length]),
            lists.farthest,
        )
        clusters = self._clusters_of(method, neighbors, run, rows)
        source = replace(self.state, unresolved=unresolved, method=method, neighbors=neighbors)
        return _RefitStages(refit_state(source, clusters, run, rows), rows=rows)

    def _clusters_of(
        self, method: CASMethod, neighbors: Neighbors, run: Runner, rows: Ints | None
    ) -> Clusters:
        """The clusters under ``method``, kept for other methods that have the same.

        rows : those alone need a cluster, None for all; some rows alone are not kept
        """
        key = tuple(getattr(method, name) for name in _CLUSTER_PARAMETERS)
        if rows is not None and key not in self._clusters:
            return Clusters.of(method, neighbors, run, rows)
        with self._clusters_lock:
            if key not in self._clusters:
                self._clusters[key] = Clusters.of(method, neighbors, run)
                if len(self._clusters) > _CLUSTERS_KEPT:
                    self._clusters.popitem(last=False)
            self._clusters.move_to_end(key)
            return self._clusters[key]

    def _rows_around(self, starts: Ints, method: CASMethod, run: Runner) -> Ints:
        """A few thousand rows that are few steps from the rows ``starts``, ascending.

        A step leads to the first k1 of a row's list, and to rows that have it among their first k2.
        """
        lists = self.longest_lists.indices
        most = min(max(_ROWS_TIMES_K1 // method.k1, 800), 3_000)
        first_lists = np.ascontiguousarray(lists[:, : method.k2 + 1])
        listed_by = transposed(cluster_stage.regular(first_lists, None, len(lists)), run)
        k = min(method.k1 + 1, lists.shape[1])
        return np.sort(rows_around(starts, lists, k, listed_by.indptr, listed_by.indices, most))


def _stage_key(method: CASMethod) -> Key:
    """The values of all parameters that a stage reads."""
    names = (field.name for field in fields(method))
    return tuple(getattr(method, name) for name in names if name not in _RANKING_PARAMETERS)
