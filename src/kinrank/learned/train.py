"""The front door of training: features and labels in, a file of weights out."""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinrank.errors import InvalidInputError, KinrankWarning
from kinrank.io import PathLike
from kinrank.learned.recipes import AnyRecipe, Card, GSSRecipe, recipe_class, save_weights
from kinrank.optional import require
from kinrank.parallel import Runner
from kinrank.registry import check_parameters

if TYPE_CHECKING:
    from kinrank.learned.data import Labelled
    from kinrank.learned.loop import OnEpoch


def train(
    method: str,
    features: Any,
    labels: Any = None,
    *,
    out: PathLike,
    cams: Any = None,
    checkpoint: PathLike | None = None,
    fresh: bool = False,
    threads: int | None = None,
    on_epoch: OnEpoch | None = None,
    **params: Any,
) -> Card:
    """Train the weights of a method and write them to a safetensors file.

    Parameters
    ----------
    method : csa, gss, lattqe or ssr
    features : (n, d) array of any real dtype; for gss the gallery that will be searched
    labels : (n,) identities; gss has none
    out : the file of weights, with a model card in it
    cams : (n,) cameras: rows of one identity and one camera then do not count as right
    checkpoint : where the state is kept after an epoch, every 15 seconds at most; None is ``out``
        with ".checkpoint" behind it. If it is there, training goes on from it; it is removed in the
        end
    fresh : begin anew even if there is a checkpoint
    threads : of torch and of the search; None is one per core
    on_epoch : called with the state after each epoch
    **params : of the recipe, see ``recipe_class(method)``

    Returns
    -------
    Card
        The model card. The same data, recipe, seed and threads give the same weights.

    Examples
    --------
    >>> import numpy as np, kinrank
    >>> random = np.random.default_rng(0)
    >>> labels = np.repeat(np.arange(40), 10)
    >>> features = random.normal(size=(40, 16))[labels] + random.normal(size=(400, 16))
    >>> card = kinrank.learned.train("lattqe", features, labels, out="lattqe.safetensors", epochs=2)
    >>> card.method
    'lattqe'
    """
    cls = recipe_class(method)
    check_parameters(method, cls, params)
    recipe = cls(**params)
    require("torch", extra="torch", purpose=f"Training {method}")
    from kinrank.learned.data import labelled
    from kinrank.learned.fitting import train_graph, train_lists
    from kinrank.learned.gss import GalleryGraph
    from kinrank.learned.loop import Checkpoint

    run = Runner.of(threads)
    if isinstance(recipe, GSSRecipe):
        if labels is not None or cams is not None:
            raise InvalidInputError("`labels` and `cams` must not be given for gss, got some.")
    elif labels is None:
        raise InvalidInputError(f"`labels` must be given to train {method}, got None.")
    data = labelled(features, labels, cams)
    place = Path(f"{Path(out)}.checkpoint") if checkpoint is None else Path(checkpoint)
    kept = Checkpoint(place, _identity(recipe, data))
    if fresh:
        kept.remove()
    how = {"checkpoint": kept, "on_epoch": on_epoch}
    if isinstance(recipe, GSSRecipe):
        graph = GalleryGraph(data.vectors, recipe.k1, run)
        arrays, card = train_graph(recipe, graph, run.threads, **how)
    else:
        arrays, card = train_lists(recipe, data, run, **how)
    save_weights(out, arrays, card)
    kept.remove()
    before = card.metrics.get("mAP none")
    after = card.metrics.get("mAP")
    if before is not None and after is not None and after <= before:
        warnings.warn(
            f"{method} did not help on the held-out identities: mAP {100 * before:.1f} without "
            f"it, {100 * after:.1f} with it.",
            KinrankWarning,
            stacklevel=2,
        )
    return card


def _identity(recipe: AnyRecipe, data: Labelled) -> str:
    """What names a recipe together with its data."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps({"method": recipe.method, **asdict(recipe)}).encode())
    columns = (data.vectors, data.labels, data.cams)
    for column in columns[:1] if isinstance(recipe, GSSRecipe) else columns:
        digest.update(b"none" if column is None else column.tobytes())
    return digest.hexdigest()
