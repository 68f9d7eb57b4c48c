"""From files to what is served."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

import kinrank
from kinrank.datasets.digits import digits
from kinrank.demo.experiment import PARAMS
from kinrank.errors import InvalidInputError, KinrankError, KinrankWarning
from kinrank.index import Index
from kinrank.methods.cas import CAS
from kinrank.serve.describe import Describer, DigitDescriber, NetworkDescriber
from kinrank.serve.labels import Labels, words_of
from kinrank.serve.pictures import FolderPictures, GreyPictures
from kinrank.serve.service import Service
from kinrank.serve.settings import Settings


def open_service(
    path: str, settings: Settings, *, images: str | None = None, labels: Any = None,
    names: Any = None, model: str | None = None, pool: str | None = None,
) -> Service:  # fmt: skip
    """An index from its file.

    Parameters
    ----------
    path : of the index; with ``settings.writable`` nobody else may write it meanwhile
    images : the folder of pictures
    labels, names : one for each row, in the order of the ids; rows that were added here since may
        be missing, from the labels if they have their own
    model, pool : what describes uploaded pictures, as for `kinrank extract`; None is what made
        the vectors, if the index says it
    """
    if pool is not None and model is None:
        raise InvalidInputError(f"`pool` must go with a model, got {pool!r} alone.")
    index = kinrank.open(path, writable=settings.writable)
    try:
        kept = Labels.kept(index)
        return Service(
            index,
            settings,
            title=Path(path).name,
            labels=kept.with_file(index, labels),
            names=_names(index, kept, names),
            pictures=None if images is None else FolderPictures(images),
            describer=_describer(index, model, pool),
        )
    except BaseException:
        index.close()
        raise


def _describer(index: Index, model: str | None, pool: str | None) -> Describer | None:
    if model is not None:
        return NetworkDescriber.named(model, pool, index.width)
    if index.recipe is None:
        return None
    try:
        return NetworkDescriber.of_recipe(index.recipe, index.width)
    except (KinrankError, OSError) as error:  # all else can be served
        warnings.warn(f"Pictures cannot be described. {error}", KinrankWarning, stacklevel=2)
        return None


def demo_service(settings: Settings) -> Service:
    """All of the digits, each of which can be the query."""
    data = digits()
    sides = {"query": data.query, "gallery": data.gallery}
    keys, vectors, labels, pixels = [], [], [], []
    for side, part in sides.items():
        assert part.labels is not None
        assert part.pixels is not None
        keys += [f"{side}-{row:04d}" for row in range(len(part))]
        vectors.append(np.asarray(part.features))
        labels += [str(label) for label in part.labels]
        pixels += list(part.pixels)
    index = CAS(k1=PARAMS["k1"], k2=PARAMS["k2"]).fit(np.concatenate(vectors), ids=keys)
    return Service(
        index,
        settings,
        title="handwritten digits",
        labels=Labels(dict(zip(keys, labels, strict=True))),
        pictures=GreyPictures(dict(zip(keys, pixels, strict=True))),
        describer=DigitDescriber(),
    )


def _names(index: Index, kept: Labels, values: Any) -> dict[Any, str]:
    """Names in the order of the ids, by id; rows that came later may be missing."""
    if values is None:
        return {}
    words, ids = words_of(values), index.ids.tolist()
    for some in (ids, kept.earlier(ids)):
        if len(words) == len(some):
            return dict(zip(some, words, strict=True))
    raise InvalidInputError(
        f"`names` must be one for each row of the index ({len(ids)}), got {len(words)}."
    )
