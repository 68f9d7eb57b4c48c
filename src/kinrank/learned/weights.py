"""Trained weights: a safetensors file with its model card. Nothing in it can be executed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy.typing as npt

from kinrank._version import __version__
from kinrank.errors import FileFormatError, InvalidInputError
from kinrank.io import PathLike, load_safetensors, save_safetensors
from kinrank.reading import reading

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

CARD = "kinrank.card"


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
