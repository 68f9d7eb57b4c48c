"""From files to what is served."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, cast

import numpy as np

import kinrank
from kinrank.cas import CAS
from kinrank.datasets.digits import digits
from kinrank.demo.experiment import PARAMS
from kinrank.errors import InvalidInputError, KinrankError, KinrankWarning
from kinrank.features import Descriptor, Recipe, load_model
from kinrank.index import Index
from kinrank.serve.describe import Describer, DigitDescriber, NetworkDescriber
from kinrank.serve.labels import Labels
from kinrank.serve.pictures import FolderPictures, grey_pictures
from kinrank.serve.service import Service
from kinrank.serve.settings import Settings


def open_service(
    path: str,
    settings: Settings,
    *,
    images: str | None = None,
    labels: Any = None,
    names: Any = None,
    model: str | None = None,
    pool: str | None = None,
    follows: bool = False,
) -> Service:
    """An index from its file.

    path : of the index; with ``settings.writable`` or ``follows`` nobody else may write it
        meanwhile
    follows : whether it will follow a store
    images : the folder of pictures
    labels, names : one for each row, in the order of the ids; rows that were added here since may
        be missing, from the labels if they have their own
    model, pool : what describes uploaded pictures, as for `kinrank extract`; None is what made
        the vectors, if the index says it
    """
    if pool is not None and model is None:
        raise InvalidInputError(f"`pool` needs a model: give --model too, got --pool {pool} alone.")
    index = kinrank.open(path, writable=settings.writable or follows)
    try:
        kept = Labels.kept(index)
        return Service(
            index,
            settings,
            title=Path(path).name,
            labels=kept.with_file(index, labels),
            names=kept.by_row("names", index, names),
            pictures=None if images is None else FolderPictures(images),
            describer=_describer(index, model, pool),
        )
    except BaseException:
        index.close()
        raise


def _describer(index: Index, model: str | None, pool: str | None) -> Describer | None:
    if model is not None:
        descriptor = Descriptor(pool=cast(Any, pool))
        return NetworkDescriber(model, load_model(model), descriptor, index.width)
    if index.recipe is None:
        return None
    try:
        recipe = Recipe.parse(index.recipe)
        return NetworkDescriber(Path(recipe.model).name, *recipe.load(), index.width)
    except (KinrankError, OSError) as error:  # all else can be served
        warnings.warn(f"Pictures cannot be described. {error}", KinrankWarning, stacklevel=2)
        return None


def demo_service(settings: Settings) -> Service:
    """All of the digits, each of which can be the query."""
    data = digits()
    keys = []
    labels = []
    pixels = []
    for name, side in (("query", data.query), ("gallery", data.gallery)):
        assert side.labels is not None
        assert side.pixels is not None
        keys += [f"{name}-{row:04d}" for row in range(len(side))]
        labels += [str(label) for label in side.labels]
        pixels += list(side.pixels)
    vectors = np.concatenate([data.query.features, data.gallery.features])
    index = CAS(k1=PARAMS["k1"], k2=PARAMS["k2"]).fit(vectors, ids=keys)
    return Service(
        index,
        settings,
        title="handwritten digits",
        labels=Labels(dict(zip(keys, labels, strict=True))),
        pictures=grey_pictures(dict(zip(keys, pixels, strict=True))),
        describer=DigitDescriber(),
    )
