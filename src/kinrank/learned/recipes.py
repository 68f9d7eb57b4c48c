"""What a training is asked for: the sizes of a network, and how long and on what it learns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, TypeAlias

from kinrank.errors import InvalidInputError, UnknownNameError
from kinrank.options import check_fields, option
from kinrank.validation import check_int

_RATED_WIDTH = 256
# What parameters may be, whichever recipe has them: integers from 1, in [low, high], (low, high].
_SIZES = (
    "anchors", "batch", "blocks", "epochs", "heads", "hidden", "k1", "kq", "kqe", "m", "patience",
    "pool", "queries", "ratio", "steps", "width",
)  # fmt: skip
_FLOATS = {
    "alpha": (0, 100), "decay": (0, 100), "drop": (0, 0.9), "penalty": (0, 1), "quantile": (0, 1),
}  # fmt: skip
_POSITIVE = {"holdout": (0, 0.9), "rate": (0, 10), "step_size": (0, 1), "temperature": (0, 100)}


def device_option() -> str:
    """A field for the torch device."""
    device: str = option("cpu", "torch device, such as cpu, cuda, cuda:1, mps", cli=str)
    return device


def check_text(name: str, value: object) -> None:
    """Refuse what is not a word."""
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"`{name}` must be a word, got {value!r}.")


def _check(recipe: TrainingRecipe | GSSRecipe) -> None:
    names = {field.name for field in fields(recipe)}
    check_fields(
        recipe,
        sizes=tuple(name for name in _SIZES if name in names),
        floats={name: bounds for name, bounds in _FLOATS.items() if name in names},
        positive={name: bounds for name, bounds in _POSITIVE.items() if name in names},
    )
    check_int("seed", recipe.seed, 0)
    check_text("device", recipe.device)


@dataclass(frozen=True, kw_only=True)
class TrainingRecipe:
    """How a network is trained with labels.

    Adam with a constant rate, gradients cut to norm 1. Each epoch takes ``queries`` training rows
    in random order, each with its nearest training rows; after it, the held-out identities are
    ranked. The weights with the best mAP there are kept, and training ends when ``patience``
    epochs brought nothing better. The same seed and threads give the same weights.
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
        _check(self)

    @property
    def length(self) -> int:
        """How many nearest rows a query comes with."""
        raise NotImplementedError

    def rate_for(self, dimension: int) -> float:
        """The learning rate for vectors of this width."""
        del dimension  # networks are of one width for all of them
        return self.rate


@dataclass(frozen=True, kw_only=True)
class CSARecipe(TrainingRecipe):
    """Contextual similarity aggregation: affinities to anchors, two transformer blocks.

    In the publication ``anchors`` and ``m`` are 512, ``width``, ``heads`` and ``blocks`` 768, 12
    and 2; in the authors' code ``temperature`` is 2.
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
        if self.width % self.heads:
            raise InvalidInputError(
                f"`heads` must divide the width {self.width}, got {self.heads}."
            )

    @property
    def length(self) -> int:
        return max(self.m, self.anchors - 1)


@dataclass(frozen=True, kw_only=True)
class SSRRecipe(TrainingRecipe):
    """Re-ranking by synthetic gradients.

    In the publication ``m`` is 100 to 500, ``hidden`` 1024, ``steps`` 1 or 2, ``step_size`` 1e-4
    to 1e-3.
    """

    method: ClassVar[str] = "ssr"

    m: int = option(64, "nearest rows that are refined with the query")
    hidden: int = option(256, "width of the networks that make gradients")
    steps: int = option(1, "steps of gradient descent")
    step_size: float = option(1e-3, "size of a step")

    @property
    def length(self) -> int:
        return self.m


@dataclass(frozen=True, kw_only=True)
class LAttQERecipe(TrainingRecipe):
    """Attention-weighted query expansion; its transformer encoder is as wide as the vectors.

    ``rate`` is for vectors of up to 256 columns; with wider ones, and so a wider network, it is
    multiplied by 256 over their width. ``kqe`` is up to 64 in the publication.
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

    @property
    def length(self) -> int:
        return max(self.kqe, self.pool)

    def rate_for(self, dimension: int) -> float:
        return self.rate * min(1.0, _RATED_WIDTH / dimension)


@dataclass(frozen=True, kw_only=True)
class GSSRecipe:
    """Guided similarity separation: learns on the gallery itself, without labels."""

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
        _check(self)


AnyRecipe: TypeAlias = TrainingRecipe | GSSRecipe

RECIPES: dict[str, type[AnyRecipe]] = {
    cls.method: cls for cls in (CSARecipe, GSSRecipe, LAttQERecipe, SSRRecipe)
}


def recipe_class(method: str) -> type[AnyRecipe]:
    """The recipe of a method that can be trained."""
    try:
        return RECIPES[method]
    except (KeyError, TypeError):
        raise UnknownNameError("method to train", method, RECIPES) from None
