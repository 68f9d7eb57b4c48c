"""All stages of a query, and its answers, in one call: the interpreter is let go of only once.

Many callers at a time would otherwise wait for it between any two stages.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.kernels.guide import closed_form
from kinrank.kernels.jit import kernel
from kinrank.kernels.lists import unit_rows
from kinrank.kernels.online import (
    Block,
    Lists,
    cluster_rows,
    similar_rows,
    told_farthest,
)
from kinrank.kernels.online_answer import answer_rows
from kinrank.kernels.online_diffuse import Graph, diffuse_rows
from kinrank.kernels.online_mix import around_rows, mixed_rows, with_support
from kinrank.kernels.online_smooth import similarity_guides, walk_guides
from kinrank.types import Floats, Ints, Longs

NONE, AVERAGE, BY_WALK, BY_SIMILARITY = 0, 1, 2, 3
ASKED = 5  # nearest rows that tell the largest distance of a query

Csr: TypeAlias = tuple[Longs, Ints, Floats]


class Stored(NamedTuple):
    """The rows of the index, stage by stage.

    order : names of rows, by which ties go to the lower
    half, xi : pointers and members; f : empty where nothing needs it
    p : P, or the enhanced rows where F' = P F
    """

    lists: Lists
    half: tuple[Longs, Ints]
    xi: tuple[Longs, Ints]
    graph: Graph
    walk_norm: Floats
    f: Csr
    hat: Csr
    tilde: Csr
    p: Csr
    order: Ints


class Options(NamedTuple):
    """The parameters of the method as numbers.

    clusters : EXPANDED, RECIPROCAL or NEAREST; full, half : lengths of their lists
    smoothing : NONE, AVERAGE, BY_WALK or BY_SIMILARITY; enhance_k : 0 for no enhancement
    squared : whether F' = P P
    """

    clusters: int
    k2: int
    full: int
    half: int
    sigma2: float
    smoothing: int
    walk_k: int
    beta: float
    enhance_k: int
    kappa: float
    keep: int
    squared: bool


class Compared(NamedTuple):
    """What answers are made from; see ``answer_rows``."""

    measure: int
    columns: tuple[Longs, Ints, Floats, Floats]
    norms: npt.NDArray[np.float64]
    omega: np.float32
    root: bool
    names: Ints
    n_gallery: int


@kernel
def encode_rows(
    x, near, near_d, counts, told, rows, walk, options, compared, space, out_ids, out, whole
):  # fmt: skip
    """The rows that queries would have in every stage, and their answers from them.

    x, near, near_d, counts, told : see Block; walk : None where F is the affinity itself
    out_ids, out, whole : see ``answer_rows``; nothing is answered where they have no columns
    Returns xi, F with guide and anchor, F-hat, the groups and names, F-tilde, P and F'; matrices as
    pointers, indices and, but for xi, values. Then what ``answer_rows`` returns.
    """
    n, m, k = rows.lists.ids.shape[0], counts.shape[0], rows.lists.ids.shape[1] - 1
    farthest = told_farthest(near, near_d, counts, rows.lists.farthest, ASKED, k)
    # Rows are made from lists as long as those of the others, however many answers are wanted.
    first, first_d = near[:, :k].copy(), near_d[:, :k].copy()
    block = Block(x, first, first_d, np.minimum(counts, k), farthest, told)
    xi_ptr, xi_ids, ptr, ids = cluster_rows(
        block, rows.lists, rows.half[0], rows.half[1], options.k2, options.full, options.half,
        options.clusters, space,
    )  # fmt: skip
    f = np.empty(ids.shape[0], np.float32)
    if walk is None:
        similar_rows(block, rows.lists, ptr, ids, options.sigma2, space, f)
    else:
        diffuse_rows(
            block, rows.lists.d, rows.lists.farthest, xi_ptr, xi_ids, ptr, ids, rows.graph, walk,
            space, f,
        )  # fmt: skip
    unit_rows(0, m, ptr, f, f)
    guide, anchor = np.zeros(f.shape[0], np.float32), np.zeros(m, np.float32)
    alone, names = np.arange(m + 1), np.full(m, n, np.int32)
    hat_ptr, hat_ids, hat = ptr, ids, f
    if options.smoothing == AVERAGE:
        groups, whose, a_ptr, a_ids, a = _around(block, rows, options.k2, xi_ptr, xi_ids, 0.0)
        hat_ptr, hat_ids, hat = mixed_rows(
            groups, a_ptr, a_ids, a, groups, whose, ptr, ids, f, rows.f[0], rows.f[1], rows.f[2], 0,
            rows.order, space,
        )  # fmt: skip
    elif options.smoothing != NONE:
        if options.smoothing == BY_WALK:
            walk_guides(
                block, rows.lists, rows.walk_norm, options.walk_k, options.sigma2, xi_ptr, xi_ids,
                ptr, ids, space, guide, anchor,
            )  # fmt: skip
        else:
            similarity_guides(
                xi_ptr, xi_ids, ptr, ids, f, rows.f[0], rows.f[1], rows.f[2], space, guide, anchor
            )
        hat = np.empty(f.shape[0], np.float32)
        closed_form(0, m, ptr, f, guide, anchor, options.beta, hat)
    groups, t_ptr, t_ids, tilde = alone, hat_ptr, hat_ids, hat
    if options.enhance_k > 0:
        groups, names, a_ptr, a_ids, a = _around(
            block, rows, options.enhance_k, xi_ptr, xi_ids, options.kappa
        )
        whose = np.full(m, n, np.int32)
        t_ptr, t_ids, tilde = mixed_rows(
            groups, a_ptr, a_ids, a, alone, whose, hat_ptr, hat_ids, hat, rows.hat[0], rows.hat[1],
            rows.hat[2], 0, rows.order, space,
        )  # fmt: skip
        groups, names, t_ptr, t_ids, tilde = with_support(
            groups, names, t_ptr, t_ids, tilde, rows.tilde[0], rows.tilde[1], rows.tilde[2],
            options.keep, rows.order, space,
        )  # fmt: skip
    # With P = F^T F the row of q would be its column of F, which the rows do not hold; similarities
    # are mutual, so its own row stands for it.
    p_ptr, p_ids, p = mixed_rows(
        groups, t_ptr, t_ids, tilde, groups, names, t_ptr, t_ids, tilde, rows.tilde[0],
        rows.tilde[1], rows.tilde[2], options.keep, rows.order, space,
    )  # fmt: skip
    m_ptr, m_ids, mine = (p_ptr, p_ids, p) if options.squared else (t_ptr, t_ids, tilde)
    prime = mixed_rows(
        groups, p_ptr, p_ids, p, groups, names, m_ptr, m_ids, mine, rows.p[0], rows.p[1], rows.p[2],
        0, rows.order, space,
    )  # fmt: skip
    undecided = np.zeros(m + 1, np.int64), np.empty(0, np.int32)
    if out.shape[1] > 0:
        undecided = answer_rows(
            Block(x, near, near_d, counts, farthest, told), rows.lists.vectors, groups, names,
            prime[0], prime[1], prime[2], compared.measure, compared.columns, compared.norms,
            compared.omega, compared.root, compared.names, compared.n_gallery, space, out_ids, out,
            whole,
        )  # fmt: skip
    return (
        (xi_ptr, xi_ids), (ptr, ids, f), guide, anchor, (hat_ptr, hat_ids, hat), groups, names,
        (t_ptr, t_ids, tilde), (p_ptr, p_ids, p), prime, undecided,
    )  # fmt: skip


@kernel
def _around(block, rows, k, xi_ptr, xi_ids, kappa):
    return around_rows(
        block.ids, block.d, block.counts, rows.lists.ids, rows.lists.d, k, xi_ptr, xi_ids, kappa,
        rows.xi[0], rows.xi[1],
    )  # fmt: skip
