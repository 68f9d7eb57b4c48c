"""Many pictures to features: in memory, or into a file by steps that survive a kill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank.errors import InvalidInputError
from kinrank.features.assemble import Side
from kinrank.features.descriptors import Descriptor
from kinrank.features.images import large_files
from kinrank.features.job import Job
from kinrank.features.networks import Network
from kinrank.features.parts import Parts, write_npz
from kinrank.features.recipe import Recipe
from kinrank.features.registry import load_model
from kinrank.features.sources import Failure, ImageList, find_images
from kinrank.features.stream import batches, items, ordered
from kinrank.features.worker import Rows, Worker
from kinrank.io import PathLike
from kinrank.parallel import thread_count
from kinrank.validation import check_int

BATCH, PART = 8, 256


@dataclass(frozen=True, eq=False)
class Extracted:
    """Features in memory.

    Attributes
    ----------
    features : (r, d) float32, unit rows
    names : the file names of the pictures that have rows (all names, if rows are fixed)
    labels, cams : of the same pictures, or None
    owners : (r,) int32, the place in ``names`` of each row; not 0, 1, 2, ... for regions only
    failures : pairs of a name and why it could not be used
    recipe : how they were made, to be kept as ``Index.recipe``; None where words do not tell it
    """

    features: npt.NDArray[np.float32]
    names: npt.NDArray[np.str_]
    labels: npt.NDArray[Any] | None
    cams: npt.NDArray[Any] | None
    owners: npt.NDArray[np.int32]
    failures: tuple[Failure, ...]
    recipe: str | None = None


@dataclass(frozen=True, eq=False)
class Summary:
    """What was written to a file.

    Attributes
    ----------
    arrays : name -> shape
    n_images, n_reused : pictures, and those of them that an earlier run had finished
    failures : pairs of a name and why it could not be used
    """

    arrays: dict[str, tuple[int, ...]]
    n_images: int
    n_reused: int
    failures: tuple[Failure, ...]


def extract(
    images: ImageList | str | Path | Sequence[str | Path],
    model: Any = "efficientnet-lite0",
    descriptor: Descriptor | None = None,
    *,
    batch: int = BATCH,
    threads: int | None = None,
) -> Extracted:
    """Describe pictures, in memory.

    Parameters
    ----------
    images : a folder, files, or an ``ImageList``
    model : what ``load_model`` takes, or what it returned
    descriptor : how maps become rows; GeM if None
    batch : pictures at a time on each thread
    threads : None is one per core; no result depends on it
    """
    listed = as_list(images)
    size, n_threads = check_int("batch", batch, 1), thread_count(threads)
    worker = Worker(_network(model), descriptor or Descriptor())
    everything = range(len(listed))
    with progress.stage("extract", len(listed)) as advance, large_files():
        worker.probe(items(listed, everything))
        some = ordered(worker, batches(listed, everything, size), n_threads, advance)
        rows = Rows.joined(list(some))
    side = Side(listed, [rows], [len(listed)])
    return Extracted(
        features=np.concatenate(list(side.blocks())),
        owners=side.owners(),
        failures=side.failures,
        recipe=_recipe(worker),
        **{name: side.column(name) for name in ("names", "labels", "cams")},
    )


def extract_to_file(
    sides: Mapping[str, ImageList],
    model: Any,
    out: PathLike,
    descriptor: Descriptor | None = None,
    *,
    batch: int = BATCH,
    part: int = PART,
    threads: int | None = None,
) -> Summary:
    """Describe pictures into an npz file.

    The file holds ``features``, ``names``, and ``labels`` and ``cams`` where they are known; with
    sides that have names, ``query`` and ``query_names`` and so on. Regional rows have ``owners``
    beside them. ``recipe`` says how they were made, where words can. Finished parts are kept in
    ``<out>.parts`` until the file is whole, so that a run that was killed goes on where it was;
    memory does not grow with the number of pictures.

    Parameters
    ----------
    sides : lists of pictures by name; the one name "" is none
    model, descriptor, batch, threads : as for ``extract``
    part : pictures in a part
    """
    target = Path(out)
    batch, part = check_int("batch", batch, 1), check_int("part", part, 1)
    job = Job(
        worker=Worker(_network(model), descriptor or Descriptor()),
        store=Parts(target.with_name(f"{target.name}.parts")),
        out=target,
        batch=batch,
        part=-(-part // batch) * batch,
    )
    tasks = {name: job.tasks(listed) for name, listed in sides.items()}
    with large_files():
        n_reused = job.run(
            [task for some in tasks.values() for task in some], thread_count(threads)
        )
    arrays, failures = job.gather(tasks)
    recipe = _recipe(job.worker)
    write_npz(target, arrays if recipe is None else {**arrays, "recipe": np.array(recipe)})
    job.store.remove()
    return Summary(
        arrays={name: tuple(array.shape) for name, array in arrays.items()},
        n_images=sum(len(listed) for listed in sides.values()),
        n_reused=n_reused,
        failures=tuple(failures),
    )


def as_list(images: ImageList | str | Path | Sequence[str | Path]) -> ImageList:
    """Whatever names pictures, as a list."""
    if isinstance(images, ImageList):
        return images
    if isinstance(images, (str, Path)):
        path = Path(images)
        if path.is_file():
            return ImageList(root=path.parent, names=[path.name])
        return find_images(path)
    names = [str(name) for name in images]
    if not names:
        raise InvalidInputError("`images` must name at least one file, got none.")
    return ImageList(root=Path(), names=names)


def _recipe(worker: Worker) -> str | None:
    found = Recipe.of(worker.network, worker.descriptor)
    return None if found is None else str(found)


def _network(model: Any) -> Network:
    ready = hasattr(model, "preprocessing") and hasattr(model, "key")
    return model if ready else load_model(model)
