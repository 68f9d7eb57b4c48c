"""The network of contextual similarity aggregation; see ``kinrank.methods.learned.csa``."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from kinrank.learned.network import ListNetwork, TransformerBlock, contrastive, to_first
from kinrank.learned.recipes import CSARecipe

_SPREAD = 0.02


class CSANetwork(ListNetwork):
    """Similarities to anchors, seen in the context of all rows of a list.

    The affinities of each row (the query, its nearest) to the anchors, a linear map, transformer
    blocks without positions, cosine with the query's token.

    Open in the publication and taken here: weights begin as in the authors' code (normal, 0.02,
    cut at two), but the outer layers of the blocks at zero.
    """

    def __init__(self, recipe: CSARecipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.embed = nn.Linear(recipe.anchors, recipe.width)
        self.blocks = nn.ModuleList(
            TransformerBlock(recipe.width, recipe.heads, ratio=4) for _ in range(recipe.blocks)
        )
        self.rebuild = nn.Linear(recipe.width, recipe.anchors)
        for name, parameter in self.named_parameters():
            outer = name.endswith(("join.weight", "narrow.weight"))
            if parameter.ndim == 2 and not outer:
                nn.init.trunc_normal_(parameter, std=_SPREAD, a=-2 * _SPREAD, b=2 * _SPREAD)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, affinity: Tensor) -> Tensor:
        """Affinities (b, tokens, anchors) to tokens (b, tokens, width)."""
        tokens: Tensor = self.embed(affinity)
        for block in self.blocks:
            tokens = block(tokens)
        return tokens

    def affinity(self, rows: Tensor, m: int) -> Tensor:
        """(b, 1 + m, d) to (b, 1 + m, anchors); anchors that are not there have affinity 0."""
        anchors = rows[:, : self.recipe.anchors]
        affinity = rows[:, : m + 1] @ anchors.transpose(1, 2)
        return functional.pad(affinity, (0, self.recipe.anchors - anchors.shape[1]))

    def scores(self, rows: Tensor, m: int) -> Tensor:
        """(b, 1 + m, d) to the scores of the first ``m`` nearest, (b, m)."""
        return to_first(self(self.affinity(rows, m)))[:, 1:]

    def loss(self, rows: Tensor, right: Tensor, wrong: Tensor) -> Tensor:
        m = self.recipe.m
        affinity = self.affinity(rows, m)
        tokens = self(affinity)
        marks = (right[:, : m + 1], wrong[:, : m + 1])
        separation = contrastive(to_first(tokens), *marks, 1 / self.recipe.temperature)
        return separation + self.recipe.alpha * self._rebuilding(tokens, affinity)

    def _rebuilding(self, tokens: Tensor, affinity: Tensor) -> Tensor:
        """How far the affinities are from those that a linear map makes of the tokens."""
        rebuilt = functional.normalize(self.rebuild(tokens), dim=-1)
        apart = (rebuilt - functional.normalize(affinity, dim=-1)).square().sum(dim=-1)
        return torch.sqrt(apart.clamp(min=1e-4)).mean()
