"""The network of attention-weighted query expansion; see ``kinrank.methods.learned.lattqe``."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from kinrank.learned.network import ListNetwork, TransformerBlock, contrastive, to_first
from kinrank.learned.recipes import LAttQERecipe

_SPREAD = 0.01
_FACTOR, _OFFSET = 10.0, -5.0  # of the logits of single neighbours, at the beginning


class LAttQENetwork(ListNetwork):
    """How much each of the nearest rows should join the query.

    The query and its nearest rows, a learned vector added for each rank, a transformer encoder;
    the weight of a row is the cosine of its token with the query's, so that the query itself has
    weight 1; q' = the unit vector along the weighted sum of the original vectors.

    Open in the publication and taken here: norms in front of the layers, blocks that begin as the
    identity (the weight is then the similarity), the softmax form of the contrastive loss over the
    query's nearest rows, one factor and one offset for the relevance of single neighbours. Tokens
    are multiplied by sqrt(d) first, as is usual for embeddings.
    """

    def __init__(self, recipe: LAttQERecipe, dimension: int) -> None:
        super().__init__()
        self.recipe = recipe
        heads = math.gcd(dimension, recipe.heads)
        self.ranks = nn.Parameter(torch.empty(recipe.kqe + 1, dimension))
        nn.init.normal_(self.ranks, std=_SPREAD)
        self.blocks = nn.ModuleList(
            TransformerBlock(dimension, heads, recipe.ratio) for _ in range(recipe.blocks)
        )
        self.relevance = nn.Parameter(torch.tensor([_FACTOR, _OFFSET]))

    def forward(self, rows: Tensor) -> Tensor:
        """(b, 1 + m, d) to weights (b, 1 + m), m at most kqe; the first weight is 1."""
        # Unit vectors have numbers of size 1 / sqrt(d), which what the blocks add, of size 1, would
        # drown: all tokens would soon be the same.
        tokens = math.sqrt(rows.shape[2]) * (rows + self.ranks[: rows.shape[1]])
        for block in self.blocks:
            tokens = block(tokens)
        return to_first(tokens)

    def loss(self, rows: Tensor, right: Tensor, wrong: Tensor) -> Tensor:
        joined = rows[:, : self.recipe.kqe + 1]
        weights = self(joined)
        expanded = functional.normalize((weights.unsqueeze(-1) * joined).sum(dim=1), dim=-1)
        pool = slice(1, self.recipe.pool + 1)
        similarity = (rows[:, pool] @ expanded.unsqueeze(-1)).squeeze(-1)
        scale = 1 / self.recipe.temperature
        separation = contrastive(similarity, right[:, pool], wrong[:, pool], scale)
        near = slice(1, weights.shape[1])
        logits = self.relevance[0] * weights[:, near] + self.relevance[1]
        counted = right[:, near] | wrong[:, near]
        each = functional.binary_cross_entropy_with_logits(
            logits, right[:, near].to(logits.dtype), reduction="none"
        )
        single = (each * counted).sum() / counted.sum().clamp(min=1)
        return separation + self.recipe.alpha * single
