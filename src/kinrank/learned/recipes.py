"""What a training is asked for: the sizes of a network, and how long and on what it learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from kinrank.errors import InvalidInputError, UnknownNameError
from kinrank.options import check_fields, option
from kinrank.validation import check_float, check_int


def device_option() -> str:
    """A field for the torch device."""
    device: str = option("cpu", "torch device, such as cpu, cuda, cuda:1, mps", cli=str)
    return device


def check_text(name: str, value: object) -> None:
    """Refuse what is not a word."""
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"`{name}` must be a word, got {value!r}.")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a network is trained with labels.

    Adam with a constant rate, gradients cut to norm 1. Each epoch takes ``queries`` training rows
    in random order, each with its nearest training rows; after it, the held-out identities are
    ranked. The weights with the best mAP there are kept, and training ends when ``patience``
    epochs brought nothing better.

    Parameters
    ----------
    epochs, patience : most epochs; epochs without a better mAP after which training ends
    queries, batch : rows that are queries in an epoch; of them in one step
    rate : learning rate of Adam
    holdout : share of the identities that is held out
    drop : share of the nearest rows that is left out at random
    seed : the same seed and threads give the same weights
    device : torch device
    """

    method: ClassVar[str]

    epochs: int = option(12, "most epochs")
    patience: int = option(3, "epochs without a better mAP after which training ends")
    queries: int = option(1024, "rows that are queries in an epoch")
    batch: int = option(32, "queries in one step")
    rate: float = option(1e-3, "learning rate of Adam")
    holdout: float = option(0.2, "share of the identities that is held out")
    drop: float = option(0.1, "share of the nearest rows that is left out at random")
    seed: int = option(0, "of the weights and of the order")
    device: str = device_option()

    def __post_init__(self) -> None:
        check_fields(
            self,
            sizes=("epochs", "patience", "queries", "batch"),
            floats={"drop": (0, 0.9)},
            positive={"rate": (0, 10)},
        )
        check_float("holdout", self.holdout, 0, 0.9, low_open=True)
        check_int("seed", self.seed, 0)
        check_text("device", self.device)

    @property
    def length(self) -> int:
        """How many nearest rows a query comes with."""
        raise NotImplementedError

    def rate_for(self, dimension: int) -> float:
        """The learning rate for vectors of this width."""
        del dimension  # networks are of one width for all of them
        return self.rate


_RATED_WIDTH = 256


def _check_heads(width: int, heads: int) -> None:
    if width % heads:
        raise InvalidInputError(f"`heads` must divide the width {width}, got {heads}.")


@dataclass(frozen=True, kw_only=True)
class CSARecipe(Recipe):
    """Contextual similarity aggregation: affinities to anchors, two transformer blocks.

    Parameters
    ----------
    anchors : rows that affinities are measured to, the query first (512 in the publication)
    m : nearest rows in the sequence of a query (512 in the publication)
    width, heads, blocks : of the transformer (768, 12, 2 in the publication)
    temperature : of the contrastive loss (2 in the authors' code)
    alpha : weight of the reconstruction of the affinities
    """

    method: ClassVar[str] = "csa"

    anchors: int = option(96, "rows that affinities are measured to, the query first")
    m: int = option(96, "nearest rows in the sequence of a query")
    width: int = option(144, "width of the transformer")
    heads: int = option(12, "heads of its attention")
    blocks: int = option(2, "transformer blocks")
    temperature: float = option(0.1, "temperature of the contrastive loss")
    alpha: float = option(0.2, "weight of the reconstruction of the affinities")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(
            self,
            sizes=("anchors", "m", "width", "heads", "blocks"),
            floats={"alpha": (0, 100)},
            positive={"temperature": (0, 100)},
        )
        _check_heads(self.width, self.heads)

    @property
    def length(self) -> int:
        return max(self.m, self.anchors - 1)


@dataclass(frozen=True, kw_only=True)
class SSRRecipe(Recipe):
    """Re-ranking by synthetic gradients.

    Parameters
    ----------
    m : nearest rows that are refined with the query (100 to 500 in the publication)
    hidden : width of the networks that make gradients (1024 in the publication)
    steps : of gradient descent (1 or 2 in the publication)
    step_size : of a step (1e-4 to 1e-3 in the publication)
    """

    method: ClassVar[str] = "ssr"

    m: int = option(64, "nearest rows that are refined with the query")
    hidden: int = option(256, "width of the networks that make gradients")
    steps: int = option(1, "steps of gradient descent")
    step_size: float = option(1e-3, "size of a step")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, sizes=("m", "hidden", "steps"), positive={"step_size": (0, 1)})

    @property
    def length(self) -> int:
        return self.m


@dataclass(frozen=True, kw_only=True)
class LAttQERecipe(Recipe):
    """Attention-weighted query expansion.

    Parameters
    ----------
    rate : learning rate of Adam up to 256 columns; with wider vectors, and so a wider network,
        times 256 over their width
    kqe : nearest rows that may join the query (up to 64 in the publication)
    heads, blocks : of the transformer encoder, which is as wide as the vectors
    ratio : width of its inner layers over that of the vectors
    pool : nearest rows that the expanded query is compared with
    temperature : of the contrastive loss
    alpha : weight of the loss of single neighbours
    """

    method: ClassVar[str] = "lattqe"

    patience: int = option(4, "epochs without a better mAP after which training ends")
    kqe: int = option(16, "nearest rows that may join the query")
    heads: int = option(8, "heads of the attention, at most; a divisor of the width is taken")
    blocks: int = option(2, "transformer blocks")
    ratio: int = option(1, "width of the inner layers over that of the vectors")
    pool: int = option(256, "nearest rows that the expanded query is compared with")
    temperature: float = option(0.1, "temperature of the contrastive loss")
    alpha: float = option(0.2, "weight of the loss of single neighbours")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(
            self,
            sizes=("kqe", "heads", "blocks", "ratio", "pool"),
            floats={"alpha": (0, 100)},
            positive={"temperature": (0, 100)},
        )

    @property
    def length(self) -> int:
        return max(self.kqe, self.pool)

    def rate_for(self, dimension: int) -> float:
        return self.rate * min(1.0, _RATED_WIDTH / dimension)


@dataclass(frozen=True, kw_only=True)
class GSSRecipe:
    """Guided similarity separation: learns on the gallery itself, without labels.

    Parameters
    ----------
    k1 : nearest rows that a gallery row is linked to
    decay : weight of the second layer
    epochs : steps of Adam
    rate : its learning rate
    quantile : share of the pairs whose similarity is pushed down, at the beginning
    penalty : of the squared weights
    batch : most rows whose pairs are looked at in one step
    seed : the same seed gives the same weights
    device : torch device
    """

    method: ClassVar[str] = "gss"

    k1: int = option(5, "nearest rows that a gallery row is linked to")
    decay: float = option(0.3, "weight of the second layer")
    epochs: int = option(200, "steps of Adam")
    rate: float = option(1e-4, "learning rate of Adam")
    quantile: float = option(0.98, "share of the pairs that is pushed apart at the beginning")
    penalty: float = option(1e-5, "of the squared weights")
    batch: int = option(1024, "most rows whose pairs are looked at in one step")
    seed: int = option(0, "of the weights and of the batches")
    device: str = device_option()

    def __post_init__(self) -> None:
        check_fields(
            self,
            sizes=("k1", "epochs", "batch"),
            floats={"decay": (0, 100), "quantile": (0, 1), "penalty": (0, 1)},
            positive={"rate": (0, 10)},
        )
        check_int("seed", self.seed, 0)
        check_text("device", self.device)


AnyRecipe: TypeAlias = Recipe | GSSRecipe

RECIPES: dict[str, type[AnyRecipe]] = {
    cls.method: cls for cls in (CSARecipe, GSSRecipe, LAttQERecipe, SSRRecipe)
}


def recipe_class(method: str) -> type[AnyRecipe]:
    """The recipe of a method that can be trained."""
    try:
        return RECIPES[method]
    except (KeyError, TypeError):
        raise UnknownNameError("method to train", method, RECIPES) from None
