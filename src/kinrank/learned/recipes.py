"""What a training is asked for, and what it leaves.

A recipe: the sizes of a network, and how long and on what it learns. Weights: a safetensors file
with a model card. Nothing in it can be executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy.typing as npt

from kinrank._version import __version__
from kinrank.errors import FileFormatError, InvalidInputError, UnknownNameError
from kinrank.io import PathLike, load_safetensors, save_safetensors
from kinrank.options import Checked, option
from kinrank.reading import reading
from kinrank.validation import check_int

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

CARD = "kinrank.card"
_RATED_WIDTH = 256


def device_option() -> str:
    """A field for the torch device."""
    text = "torch device, such as cpu, cuda, cuda:1, mps"
    device: str = option("cpu", text, cli=str, check=_check_text)
    return device


def _check_text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"`{name}` must be a word, got {value!r}.")
    return value


@dataclass(frozen=True, kw_only=True)
class TrainingRecipe(Checked):
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
    rate: float = option(1e-3, "learning rate of Adam", above=(0, 10))
    holdout: float = option(0.2, "share of the identities that is held out", above=(0, 0.9))
    drop: float = option(
        0.1, "share of the nearest rows that is left out at random", within=(0, 0.9)
    )
    seed: int = option(0, "of the weights and of the order", check=partial(check_int, low=0))
    device: str = device_option()

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
    temperature: float = option(0.1, "temperature of the contrastive loss", above=(0, 100))
    alpha: float = option(0.2, "weight of the reconstruction of the affinities", within=(0, 100))

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
    step_size: float = option(1e-3, "size of a step", above=(0, 1))

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
    temperature: float = option(0.1, "temperature of the contrastive loss", above=(0, 100))
    alpha: float = option(0.2, "weight of the loss of single neighbours", within=(0, 100))

    @property
    def length(self) -> int:
        return max(self.kqe, self.pool)

    def rate_for(self, dimension: int) -> float:
        return self.rate * min(1.0, _RATED_WIDTH / dimension)


@dataclass(frozen=True, kw_only=True)
class GSSRecipe(Checked):
    """Guided similarity separation: learns on the gallery itself, without labels."""

    method: ClassVar[str] = "gss"

    k1: int = option(5, "nearest rows that a gallery row is linked to", spare=1)
    decay: float = option(0.3, "weight of the second layer", within=(0, 100))
    epochs: int = option(200, "steps of Adam")
    rate: float = option(1e-4, "learning rate of Adam", above=(0, 10))
    quantile: float = option(
        0.98, "share of the pairs that is pushed apart at the beginning", within=(0, 1)
    )
    penalty: float = option(1e-5, "of the squared weights", within=(0, 1))
    batch: int = option(1024, "most rows whose pairs are looked at in one step")
    seed: int = option(0, "of the weights and of the batches", check=partial(check_int, low=0))
    device: str = device_option()


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


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a file of weights says about itself.

    Attributes
    ----------
    method : the name of the method
    dimension : the width of the vectors that it was trained on
    parameters : the recipe, name -> value
    size : how many numbers were trained
    data : how many rows and identities, trained on and held out
    metrics : loss, and mAP on the held-out part before (``none``) and after, fractions
    version : of kinrank
    """

    method: str
    dimension: int
    parameters: Mapping[str, Any]
    size: int
    data: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    version: str = __version__


def save_weights(path: PathLike, arrays: Arrays, card: Card) -> None:
    """Write weights and card, whole or not at all."""
    save_safetensors(path, arrays, {CARD: json.dumps(asdict(card), sort_keys=True)})


def load_weights(path: PathLike, method: str, dimension: int) -> tuple[Arrays, Card]:
    """The weights of ``method`` for vectors of ``dimension`` columns, and their card."""
    arrays, words = load_safetensors(path)
    card = _parse(path, words)
    if card.method != method:
        raise InvalidInputError(
            f"`weights` must be trained for {method}, got {path}, which is for {card.method}. "
            f"{how_to_train(method)}"
        )
    if card.dimension != dimension:
        raise InvalidInputError(
            f"`weights` must be trained on vectors with {dimension} columns, as these have, "
            f"got {card.method} for {card.dimension}. {how_to_train(card.method)}"
        )
    return arrays, card


def read_card(path: PathLike) -> Card:
    """The model card of a file that ``kinrank train`` wrote."""
    return _parse(path, load_safetensors(path)[1])


def how_to_train(method: str) -> str:
    """The command that makes weights."""
    labels = "" if method == "gss" else "--labels train_labels.npy "
    return (
        f"Train them with: kinrank train {method} --features train.npy {labels}"
        "--out model.safetensors"
    )


def digest(path: PathLike) -> str:
    """What tells two files of weights apart."""
    return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()


def _parse(path: PathLike, words: Mapping[str, str]) -> Card:
    if CARD not in words:
        raise FileFormatError(
            f"{path} must be weights that `kinrank train` wrote, got a file without a model card."
        )
    with reading(path, "weights that `kinrank train` wrote, with a whole model card"):
        values = json.loads(words[CARD])
        return Card(**{**values, "dimension": int(values["dimension"])})
