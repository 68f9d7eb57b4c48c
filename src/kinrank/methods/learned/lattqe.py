"""Attention-weighted query expansion, and the same on the database side.

Albert Gordo, Filip Radenović, Tamara Berg: Attention-Based Query Expansion Learning, ECCV 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.methods.learned.trained import TrainedMethod, each_list
from kinrank.methods.query_expansion.expansion import add_up
from kinrank.options import option
from kinrank.parallel import Runner
from kinrank.runs.execution import Execution
from kinrank.search.exact import exact_neighbors, exact_search
from kinrank.search.stored import Stored
from kinrank.types import Floats, Ints, Ranking


@dataclass(frozen=True, kw_only=True)
class LAttQE(TrainedMethod):
    """Learned attention: a transformer weighs the query's nearest; with ``dba`` also LAttDBA.

    Tokens = transformer encoder of the query and its nearest, with a learned vector for each rank;
    w_i = cosine of the tokens of query and row; q' = the unit vector along q + the sum of w_i x_i;
    score = q' g

    Distances are minus the score, in [-1, 1]. Vectors are normalised first. Time O(n_queries n d)
    and O(kqe d^2 + kqe^2 d) per query, with ``dba`` O(n^2 d + n kdba d^2) more to fit; memory
    O(n d). A new query needs only the fitted gallery.

    The publication says that weights on the database side have a temperature, and not where; here
    it is sign(w) |w|^(1 / temperature).

    Parameters
    ----------
    metric : "cosine", the only one of this method
    weights : file of weights, from ``kinrank train lattqe``
    kqe : nearest rows that join the query, at most as many as in training; None is as many
    dba, kdba : expand the gallery rows too; rows one is made from, itself counted (None: kqe)
    temperature : of the weights on the database side
    order : with ``dba``: the query is joined by "original" gallery rows or by "augmented" ones
    device : torch device

    Examples
    --------
    >>> import kinrank
    >>> method = kinrank.LAttQE(weights="lattqe.safetensors")  # of kinrank.learned.train
    >>> method.weights
    'lattqe.safetensors'
    """

    name: ClassVar[str] = "lattqe"

    kqe: int | None = option(None, "nearest rows that join the query; as in training if left out")
    dba: bool = option(False, "expand the gallery rows too")
    kdba: int | None = option(None, "rows a gallery row is made from, itself counted")
    temperature: float = option(
        1.0, "temperature of the weights on the database side", within=(1e-6, 100)
    )
    order: Literal["original", "augmented"] = option(
        "original", "which gallery rows join the query"
    )

    def _limits(self, n: int) -> dict[str, int]:
        return {"kqe": n, "kdba": n} if self.dba else {"kqe": n}

    def state_of(self, network: Any, gallery: Stored, run: Runner) -> tuple[Any, Stored]:
        """The network, and the gallery that is searched in the end."""
        trained = network.recipe.kqe
        for name, value in (("kqe", self.kqe), ("kdba", self.kdba and self.kdba - 1)):
            if value is not None and value > trained:
                raise InvalidInputError(
                    f"`{name}` must be no larger than in training ({trained}), got {value}."
                )
        if not self.dba:
            return network, gallery
        lists = exact_neighbors(gallery, min(self.kdba or trained, len(gallery)), run)
        ids = lists.indices[:, 1:]
        weights = self._weights(network, gallery, gallery, ids, run)
        weights = np.sign(weights) * np.abs(weights) ** np.float32(1 / self.temperature)
        return network, add_up(gallery, gallery, ids, weights, run)

    def search_prepared(
        self,
        state: Any,
        gallery: Stored,
        queries: Stored,
        k: int,
        execution: Execution,
        own_rows: Ints | None = None,
    ) -> Ranking:
        run = execution.runner
        network, searched = state
        source = gallery if self.order == "original" else searched
        kqe = min(self.kqe or network.recipe.kqe, len(source))
        near = exact_search(queries, source, kqe, run, own_rows=own_rows)
        weights = self._weights(network, queries, source, near.indices, run)
        expanded = add_up(queries, source, near.indices, weights, run)
        answers = exact_search(expanded, searched, k, run, "inner")
        return Ranking(answers.indices, answers.distances)

    @staticmethod
    def _weights(network: Any, rows: Stored, gallery: Stored, ids: Ints, run: Runner) -> Floats:
        """The weights of each row and of the gallery rows ``ids``, (n, 1 + m)."""
        weights = np.empty((len(rows), ids.shape[1] + 1), np.float32)

        def weigh(lists: Any, batch: slice) -> None:
            weights[batch] = network(lists).cpu().numpy()

        each_list(network, rows, gallery, ids, weigh, run)
        return weights
