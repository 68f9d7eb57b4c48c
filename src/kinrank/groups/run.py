"""A run: from vectors to groups."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from kinrank.arrays import Arrays
from kinrank.compiling import prepare
from kinrank.errors import InvalidInputError, shown
from kinrank.filters import Filter
from kinrank.groups.constraints import Constraints
from kinrank.groups.corrections import Corrections
from kinrank.groups.groups import Found, Groups, arrange
from kinrank.groups.level import SURE, UNKNOWN, Level, choose_level
from kinrank.groups.links import PROJECTED, TWOS, Links, find_links
from kinrank.groups.reasons import Verdict
from kinrank.groups.singles import NOBODY, grow_without_singles
from kinrank.groups.tree import USUAL_LEVEL, Tree, grow_tree
from kinrank.io import PathLike
from kinrank.methods.cas import CASMethod
from kinrank.parallel import Runner
from kinrank.projection.evidence import come_in_twos
from kinrank.projection.projection import Projection
from kinrank.runs.execution import Execution, RankingInputs
from kinrank.runs.run import Run, as_run
from kinrank.types import Floats, SparseRows
from kinrank.validation import as_vectors, check_float

_ROW_BYTES = 450  # of a row in the tree and in what is cut from it
_BLOCK = 8192  # rows that are compared at a time


@dataclass(frozen=True, eq=False)
class LinkRankings:
    """The rankings that links come from, as a run plans them and knows them again.

    method : of the first; whiten : what is learnt for the second, None for a plan
    """

    method: CASMethod
    whiten: str | None = "pairs"

    ranking_bytes: ClassVar[int] = 0
    reads_in_blocks: ClassVar[bool] = False

    def ranked(
        self,
        queries: Any,
        gallery: Any,
        k: int | None,
        execution: Execution,
        row_filter: Filter | None = None,
    ) -> Any:
        """Rank ``queries`` among themselves; see ``RankingMethod``."""
        del gallery, k, row_filter
        rows = as_vectors(("vectors", queries), empty=execution.arrays.empty)
        return find_links(rows, self.method, execution, level=0)


def group_rows(
    vectors: npt.NDArray[Any],
    ids: npt.NDArray[Any],
    method: CASMethod,
    *,
    strictness: float = 0.5,
    threshold: float | None = None,
    constraints: Constraints | None = None,
    corrections: Corrections | PathLike | None = None,
    threads: int | None = None,
    run: Run | None = None,
) -> Groups:
    """Groups of rows that are known to be finite; see ``kinrank.group``."""
    strictness = check_float("strictness", strictness, 0, 1)
    if threshold is not None:
        threshold = check_float("threshold", threshold, 0, 1)
    if constraints is not None and not isinstance(constraints, Constraints):
        raise InvalidInputError(
            f"`constraints` must be kinrank.Constraints, got {shown(constraints)}."
        )
    if not isinstance(method, CASMethod):
        raise InvalidInputError(
            f"`method` must be kinrank.CAS with parameters, got {shown(method)}."
        )
    log = corrections if isinstance(corrections, Corrections) else Corrections(corrections)
    log.check_collection(ids.tolist())
    run = as_run(run)
    _check_run(run)
    prepare("group")
    if _all_equal(vectors):
        found = _one_point(as_vectors(("vectors", vectors)), ids, constraints)
        return arrange(found, log, strictness)
    inputs = RankingInputs(LinkRankings(method), vectors, None, None, row_bytes=_ROW_BYTES)
    with run.execution("group", inputs, threads) as execution:
        rows = as_vectors(("vectors", vectors), empty=execution.arrays.empty)
        chosen, sizes = _choose_sizes(rows, threads, execution.arrays)
        projected = PROJECTED.replace(**sizes)
        links = find_links(rows, method.replace(**sizes), execution, chosen.level, projected)
        if threshold is None:
            tree, single_below = grow_without_singles(links, chosen.level, execution)
        else:
            tree = grow_tree(links, arrays=execution.arrays)
            single_below = NOBODY
        if run.memory_budget is None:
            links = execution.outlasting(links)
        found = Found(
            links=links,
            tree=tree,
            ids=ids,
            constraints=constraints,
            level=chosen.level,
            single_below=single_below,
            threshold=threshold,
            verdict=_verdict(chosen),
        )
        return arrange(found, log, strictness, execution.arrays)


def _choose_sizes(
    rows: Floats, threads: int | None, arrays: Arrays
) -> tuple[Level, dict[str, int]]:
    """The level, and parameters of the rankings that replace what they have: those for twos.

    Rows may seem to come in twos because there are two copies of each. So groups of two must be
    surer than others, and others not sure.
    """
    usual = choose_level(rows, threads, arrays)
    if usual.agreement is None or usual.agreement >= SURE:
        return usual, {}
    if not come_in_twos(rows, Runner.of(threads)):
        return usual, {}
    of_twos = choose_level(rows, threads, arrays, PROJECTED.replace(**TWOS))
    assert of_twos.agreement is not None
    if of_twos.agreement <= usual.agreement:
        return usual, {}
    return of_twos, TWOS


def _check_run(run: Run) -> None:
    """Refuse what cannot make groups."""
    if not isinstance(run.search, str):
        raise InvalidInputError(
            "`search` must be 'exact' or 'approximate' for groups, as rows are projected too, got "
            f"a {type(run.search).__name__}."
        )


def corrections_beside(path: PathLike) -> str:
    """The file in which the corrections of an index file are kept."""
    return f"{os.fspath(path)}.corrections.jsonl"


def _all_equal(vectors: npt.NDArray[Any]) -> bool:
    blocks = (vectors[low : low + _BLOCK] for low in range(0, len(vectors), _BLOCK))
    return all(bool((block == vectors[0]).all()) for block in blocks)


def _one_point(vectors: Floats, ids: npt.NDArray[Any], constraints: Constraints | None) -> Found:
    """One row, or copies of one: there is nothing to rank."""
    n = len(vectors)
    directions = np.zeros((n, 1), np.float32)
    directions[:, 0] = 1
    similarities = SparseRows(np.zeros(n + 1, np.int64), np.empty(0, np.int32), None, n)
    if n > 1:  # a chain of copies
        rows = np.arange(n - 1)
        both = np.concatenate([rows, rows + 1]), np.concatenate([rows + 1, rows])
        similarities = SparseRows.of_entries(*both, np.ones(2 * n - 2, np.float32), n)
    width = vectors.shape[1]
    view = Projection(np.zeros(width, np.float32), np.eye(1, width, dtype=np.float32))
    links = Links(similarities, directions, (view,))
    text = "There is one row." if n == 1 else "All rows are equal: they are one group."
    tree: Tree = grow_tree(links)
    return Found(
        links=links,
        tree=tree,
        ids=ids,
        constraints=constraints,
        level=USUAL_LEVEL,
        single_below=NOBODY,
        threshold=0.0,
        verdict=Verdict(True, None, text),
    )


def _verdict(chosen: Level) -> Verdict:
    """What the agreement of two halves of the features means."""
    agreement = chosen.agreement
    if agreement is None:
        return Verdict(True, None, "There are too few rows to tell how sure the groups are.")
    share = f"Two halves of the features agree on the groups to {agreement:.0%}"
    if agreement < UNKNOWN:
        return Verdict(
            False,
            agreement,
            f"{share}: these features cannot tell who is the same. All rows are single items; "
            "`candidates` has the likeliest groups of each.",
        )
    if agreement < SURE:
        return Verdict(True, agreement, f"{share}: look at them before you rely on them.")
    return Verdict(True, agreement, f"{share}.")
