"""The networks of re-ranking by synthetic gradients; see ``kinrank.methods.learned.ssr``."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from kinrank.learned.network import ListNetwork, contrastive, to_first
from kinrank.learned.recipes import SSRRecipe

_SCALE = 10.0


class RowNorm(nn.Module):
    """Mean 0 and deviation 1 along a row, then one factor and one offset (instance norm)."""

    def __init__(self) -> None:
        super().__init__()
        self.factor, self.offset = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """Any shape to the same."""
        return functional.layer_norm(x, x.shape[-1:]) * self.factor + self.offset


class GradientMaker(nn.Sequential):
    """From the similarities around a row to what their gradient would be: (..., 2k + 1) to same.

    The last layer begins at zero, so that nothing moves before it has learned.
    """

    def __init__(self, size: int, hidden: int) -> None:
        last = nn.Linear(hidden, size)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        super().__init__(
            RowNorm(), nn.Linear(size, hidden), nn.ReLU(),
            RowNorm(), nn.Linear(hidden, hidden), nn.ReLU(),
            RowNorm(), last,
        )  # fmt: skip


class SSRNetwork(ListNetwork):
    """Move the query, then its nearest rows, along gradients that a network makes.

    For each row i of the list (query 0, nearest 1..k): the similarities (s_i0, s_ij, s_0j), j in
    the order of s_ij, go through a network; what comes out counts as the gradient of a loss by
    these similarities, and is carried back to the vectors, through the norm.

    As in the authors' code there is one network for the query and one for its nearest rows, and
    the order is taken as given in the gradient. Open in the publication and taken here: lists
    of less than m rows are filled up with rows of similarity 0.
    """

    def __init__(self, recipe: SSRRecipe) -> None:
        super().__init__()
        self.recipe = recipe
        inputs = 2 * recipe.m + 1
        self.of_query = GradientMaker(inputs, recipe.hidden)
        self.of_nearest = GradientMaker(inputs, recipe.hidden)
        self.scale = nn.Parameter(torch.tensor(_SCALE))

    def forward(self, rows: Tensor) -> Tensor:
        """(b, 1 + m, d) to the refined rows; fewer rows are filled up, more are left out."""
        count = self.recipe.m + 1
        rows = functional.pad(rows, (0, 0, 0, max(count - rows.shape[1], 0)))[:, :count]
        for _ in range(self.recipe.steps):
            first = rows[:, :1] - self.recipe.step_size * self.step(self.of_query, rows)[:, :1]
            rows = torch.cat([first, rows[:, 1:]], dim=1)
            rest = rows[:, 1:] - self.recipe.step_size * self.step(self.of_nearest, rows)[:, 1:]
            rows = torch.cat([rows[:, :1], rest], dim=1)
        return rows

    def step(self, maker: nn.Module, rows: Tensor) -> Tensor:
        """The gradient of every row, (b, 1 + k, d), in closed form."""
        unit = functional.normalize(rows, dim=-1)
        similarity = unit @ unit.transpose(1, 2)
        order = _order(similarity)
        made = maker(_around(similarity, order))
        back = _carried_back(made, order)
        along = (back + back.transpose(1, 2)) @ unit
        norm: Tensor = rows.norm(dim=-1, keepdim=True).clamp(min=1e-12)
        across: Tensor = along - (along * unit).sum(dim=-1, keepdim=True) * unit
        return across / norm

    def scores(self, rows: Tensor, m: int) -> Tensor:
        """(b, 1 + m, d) to the scores of the first ``m`` nearest, (b, m)."""
        return to_first(self(_turned(rows)))[:, 1 : m + 1]

    def loss(self, rows: Tensor, right: Tensor, wrong: Tensor) -> Tensor:
        used = slice(0, self.recipe.m + 1)
        similarity = to_first(self(_turned(rows)))[:, : rows.shape[1]]
        return contrastive(similarity, right[:, used], wrong[:, used], self.scale)


def _turned(rows: Tensor) -> Tensor:
    """The same lists in coordinates of the space that each spans: (b, 1 + m, at most 1 + m).

    Steps are sums of the rows of a list, so that its similarities do not change, and with wide
    vectors there is far less to compute.
    """
    if rows.shape[2] <= rows.shape[1]:
        return rows
    turned: Tensor = torch.linalg.qr(rows.transpose(1, 2), mode="r").R
    return turned.transpose(1, 2).contiguous()


def _order(similarity: Tensor) -> Tensor:
    """For each row the nearest rows by their similarity to it, (b, 1 + k, k)."""
    return similarity[:, :, 1:].detach().sort(dim=-1, descending=True, stable=True).indices


def _around(similarity: Tensor, order: Tensor) -> Tensor:
    """(s_i0, s_ij, s_0j) for each row i, j in its order: (b, 1 + k, 2k + 1)."""
    of_query = similarity[:, :1, 1:].expand_as(order)
    parts = (similarity[:, :, :1], similarity[:, :, 1:].gather(2, order), of_query.gather(2, order))
    return torch.cat(parts, dim=-1)


def _carried_back(made: Tensor, order: Tensor) -> Tensor:
    """The gradient by each similarity, (b, 1 + k, 1 + k), from that by what ``_around`` took."""
    k = order.shape[-1]
    nothing = torch.zeros(order.shape, dtype=made.dtype, device=made.device)
    of_row = torch.cat([made[..., :1], nothing.scatter(2, order, made[..., 1 : k + 1])], dim=-1)
    of_query = nothing.scatter(2, order, made[..., k + 1 :]).sum(dim=1, keepdim=True)
    return of_row + functional.pad(of_query, (1, 0, 0, k))
