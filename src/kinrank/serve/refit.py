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
from kinrank.graph.layout import Layout
from kinrank.index.build import Given, build
from kinrank.index.make import search_of
from kinrank.index.online import Engine
from kinrank.index.rows import mixed, row_distances
from kinrank.index.settings import check_online
from kinrank.index.state import State, fitted_method
from kinrank.kernels.paths import path_rows
from kinrank.methods.cas import CAS
from kinrank.neighbors.exact import exact_neighbors
from kinrank.neighbors.search import dense_search
from kinrank.parallel import Runner
from kinrank.stages.diverge import Divergence
from kinrank.stages.rank import UNREACHABLE
from kinrank.types import Floats, Neighbors, SparseRows

ROWS = 50_000  # more would take longer than anybody waits
_BYTES = 1 << 30  # that are kept, the newest not counted
_RANKING = {"variant", "omega", "geodesic"}  # what no stage depends on

Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Refit:
    """An engine with other parameters, and the graph of shortest paths, None without them."""

    engine: Engine
    paths: SparseRows | None

    def distances(self, row: int) -> Floats:
        """d* from a row to all rows, (n,) by row; infinite to itself."""
        if self.paths is None:
            return row_distances(self.engine, row)
        state, paths = self.engine.state, self.paths
        modified = np.empty((1, len(state)), np.float32)
        edges = (paths.indptr, paths.indices, paths.values)
        path_rows(0, 1, np.array([row], np.int32), *edges, UNREACHABLE, 0, modified)
        squared = dense_search(state.vectors[row : row + 1], state.vectors)[0]
        out = mixed(self.engine, modified[0], squared, float(state.neighbors.farthest[row]))
        out[row] = np.inf
        return out


@dataclass(eq=False)
class _Stages:
    """The stages over all rows; paths : None as long as nobody asked for them."""

    state: State
    paths: SparseRows | None = None

    def ranked_by(self, method: CAS) -> Refit | None:
        """With the parameters of the ranking; None if the paths are missing."""
        if method.geodesic and self.paths is None:
            return None
        own = self.state
        state = replace(
            own, asked=own.asked.replace(omega=method.omega),
            method=own.method.replace(omega=method.omega),
        )  # fmt: skip
        return Refit(Engine(state, search_of(state, None)), self.paths if method.geodesic else None)

    def find_paths(self, lists: Neighbors, k: int, run: Runner) -> None:
        """The graph of shortest paths over the ``k`` nearest; lists : by name."""
        if self.paths is None:
            state = self.state
            rows = SparseRows.from_scipy(state.columns.to_scipy().T)
            near = Layout(state.names, state.places).neighbors(lists)
            divergence = Divergence.of(rows, state.method.divergence)
            self.paths = divergence.graph(near.indices, k, run)


class Refits:
    """What was made for one state of an index."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._kept: OrderedDict[Key, _Stages] = OrderedDict()
        self._kept[_key(state.asked)] = _Stages(state)
        self._keeping, self._making = threading.Lock(), threading.Lock()
        self._lists: Neighbors | None = None

    def known(self, method: CAS) -> Refit | None:
        """The index under ``method`` if that was made before."""
        if self.reason(method):
            return None
        stages = self._find(method)
        return None if stages is None else stages.ranked_by(method)

    def make(self, method: CAS, run: Runner) -> Refit | None:
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
        return stages.ranked_by(method)

    def reason(self, method: CAS) -> str:
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

    def _find(self, method: CAS) -> _Stages | None:
        with self._keeping:
            found = self._kept.get(_key(method))
            if found is not None:
                self._kept.move_to_end(_key(method))
            return found

    def _keep(self, method: CAS, made: _Stages) -> None:
        """Keep what was made, and let go of what was not asked for longest."""
        with self._keeping:
            own = _key(self.state.asked)
            others = [key for key in self._kept if key != own]
            total = sum(sum(self._kept[key].state.sizes().values()) for key in others)
            for key in others:
                if total <= _BYTES:
                    break
                total -= sum(self._kept.pop(key).state.sizes().values())
            self._kept[_key(method)] = made

    def _stages(self, method: CAS, run: Runner) -> _Stages:
        state, asked = self.state, method.replace(geodesic=False)
        fitted = fitted_method(asked, len(state))
        length = fitted._list_length()
        lists = self._longer(length, run)
        known = Neighbors(
            np.ascontiguousarray(lists.indices[:, :length]),
            np.ascontiguousarray(lists.distances[:, :length]),
            lists.farthest,
        )
        vectors = state.vectors[state.places]
        return _Stages(build(Given(asked, fitted, state.frame, state.ids, known, vectors), run))

    def _longer(self, length: int, run: Runner) -> Neighbors:
        """Lists by name, of ``length`` or more; searched if those of the index are shorter."""
        state = self.state
        if self._lists is None:
            self._lists = Layout(state.places, state.names).neighbors(state.neighbors)
        if self._lists.k < length:
            # Longer than asked for: the slider may move on.
            wanted = min(len(state), 1 << (length - 1).bit_length())
            self._lists = exact_neighbors(state.vectors[state.places], wanted, run)
        return self._lists


def _key(method: CAS) -> Key:
    return tuple(getattr(method, one.name) for one in fields(method) if one.name not in _RANKING)
