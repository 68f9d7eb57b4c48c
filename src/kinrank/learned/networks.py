"""The networks: what lists of nearest rows become; see ``kinrank.methods.learned``."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from kinrank.learned.recipes import CSARecipe, LAttQERecipe, SSRRecipe

# of numbers at the beginning
_CSA_SPREAD = 0.02
_RANK_SPREAD = 0.01
# of the logits of single neighbours, at the beginning
_FACTOR = 10.0
_OFFSET = -5.0
_SCALE = 10.0


class ListNetwork(nn.Module):
    """A network that learns from lists: a query and its nearest rows."""

    def loss(self, rows: Tensor, right: Tensor, wrong: Tensor) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        rows : (b, 1 + m, d) unit vectors, the query first, then its nearest
        right, wrong : (b, 1 + m) bool, rows that belong to the query and rows that do not; those
            that are neither do not count, and the query itself is neither
        """
        raise NotImplementedError


class TransformerBlock(nn.Module):
    """A transformer block with the norms in front: attention, then a perceptron, both added.

    x <- x + P softmax(Q K^T / sqrt(w / heads)) V; x <- x + U gelu(D x), on normalised x

    The outer layers begin at zero, so that a block changes nothing before it has learned.
    """

    def __init__(self, width: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.norm_inner = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.join = nn.Linear(width, width)
        self.widen = nn.Linear(width, ratio * width)
        self.narrow = nn.Linear(ratio * width, width)
        for layer in (self.join, self.narrow):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        b, tokens, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).reshape(b, tokens, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.join(mixed.transpose(1, 2).reshape(b, tokens, width))
        inner: Tensor = self.narrow(functional.gelu(self.widen(self.norm_inner(x))))
        return x + inner


def to_first(tokens: Tensor) -> Tensor:
    """The cosine of every token with the first: (b, m, w) to (b, m)."""
    unit = functional.normalize(tokens, dim=-1)
    return (unit[:, :1] * unit).sum(dim=-1)


def contrastive(similarity: Tensor, right: Tensor, wrong: Tensor, scale: Tensor | float) -> Tensor:
    """The mean over the right rows of -log(e^s / (e^s + sum over the wrong rows of e^s')).

    similarity, right, wrong : (b, m); s is the similarity times ``scale``
    """
    logits = similarity * scale
    others = logits.masked_fill(~wrong, -torch.inf).logsumexp(dim=1, keepdim=True)
    # A list without a wrong row has nothing to be told from.
    others = others.clamp(min=torch.finfo(logits.dtype).min / 2)
    each = functional.softplus(others - logits) * right
    count = right.sum(dim=1).clamp(min=1)
    return (each.sum(dim=1) / count).mean()


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
                nn.init.trunc_normal_(
                    parameter, std=_CSA_SPREAD, a=-2 * _CSA_SPREAD, b=2 * _CSA_SPREAD
                )
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
        separation = contrastive(
            to_first(tokens), right[:, : m + 1], wrong[:, : m + 1], 1 / self.recipe.temperature
        )
        # How far the affinities are from those that a linear map makes of the tokens.
        rebuilt = functional.normalize(self.rebuild(tokens), dim=-1)
        apart = (rebuilt - functional.normalize(affinity, dim=-1)).square().sum(dim=-1)
        rebuilding = torch.sqrt(apart.clamp(min=1e-4)).mean()
        return separation + self.recipe.alpha * rebuilding


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
        nn.init.normal_(self.ranks, std=_RANK_SPREAD)
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


class RowNorm(nn.Module):
    """Mean 0 and deviation 1 along a row, then one factor and one offset (instance norm)."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(()))
        self.offset = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
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
            RowNorm(),
            nn.Linear(size, hidden),
            nn.ReLU(),
            RowNorm(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            RowNorm(),
            last,
        )


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
