"""Many pictures to features: in memory, or into a file by steps that survive a kill."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank import progress
from kinrank.features.chunks import Chunk, ChunkStore, ListFeatures, cut
from kinrank.features.descriptors import Descriptor
from kinrank.features.extractor import FeatureExtractor, ImageFeatures
from kinrank.features.images import large_files
from kinrank.features.registry import Recipe, load_model
from kinrank.features.sources import Failure, ImageList, as_list
from kinrank.io import PathLike, make_folder, npz_members, write_members
from kinrank.parallel import thread_count
from kinrank.validation import check_int

BATCH = 8
PART = 256
_FLOAT_BYTES = 4


@dataclass(frozen=True, eq=False)
class Extracted:
    """Features in memory.

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
    chosen = as_list(images)
    batch = check_int("batch", batch, 1)
    threads = thread_count(threads)
    extractor = _extractor(model, descriptor)
    everything = range(len(chosen))
    with progress.stage("extract", len(chosen)) as advance, large_files():
        extractor.probe(map(chosen.item, everything))
        batches = list(extractor.stream(chosen.batches(everything, batch), threads, advance))
    result = ListFeatures(chosen, lambda: batches)
    return Extracted(
        features=np.concatenate(list(result.blocks())),
        owners=result.owners(),
        failures=result.failures,
        recipe=_recipe(extractor),
        **result.columns(),
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
    threads = thread_count(threads)
    batch = check_int("batch", batch, 1)
    part = check_int("part", part, 1)
    extractor = _extractor(model, descriptor)
    store = ChunkStore(target)
    size = -(-part // batch) * batch
    chunks = {name: cut(images, extractor, batch, size) for name, images in sides.items()}
    missing = [c for side in chunks.values() for c in side if store.find(c) is None]
    left = sum(len(chunk.rows) for chunk in missing)
    with large_files(), progress.stage("extract", left) as advance:
        if missing:
            _check_first(missing, extractor, store)
        batches = (items for c in missing for items in c.images.batches(c.rows, batch))
        with closing(extractor.stream(batches, threads, advance)) as described:
            for chunk in missing:
                count = -(-len(chunk.rows) // batch)
                store.save(chunk, ImageFeatures.joined(list(islice(described, count))))
    results = {
        name: ListFeatures(images, partial(store.read, chunks[name]))
        for name, images in sides.items()
    }
    arrays = _write(target, results, extractor)
    store.remove()
    n_images = sum(map(len, sides.values()))
    failures = tuple(failure for result in results.values() for failure in result.failures)
    return Summary(arrays, n_images, n_images - left, failures)


def _check_first(missing: list[Chunk], extractor: FeatureExtractor, store: ChunkStore) -> None:
    """Say before hours of work that the network does not run, or that there is no place or room."""
    shape = extractor.probe(chunk.images.item(row) for chunk in missing for row in chunk.rows)
    if shape is None:
        return
    # The chunks that are to come, and the file that is made of all of them.
    floats = 2 * sum(len(chunk.rows) for chunk in missing) * shape[0] * shape[1]
    need = floats * _FLOAT_BYTES
    free = shutil.disk_usage(store.out.resolve().parent).free
    if need > free:
        words = f"about {need / 1e6:,.1f} MB are needed, {free / 1e6:,.1f} MB are free"
        raise OSError(errno.ENOSPC, f"No space left on device: {words}", str(store.out))
    make_folder(store.folder)


def _write(
    out: Path, results: Mapping[str, ListFeatures], extractor: FeatureExtractor
) -> dict[str, tuple[int, ...]]:
    """The npz file, features chunk by chunk; returns the shapes of its arrays."""
    shapes: dict[str, tuple[int, ...]] = {}
    with npz_members(out) as member:
        for side, result in results.items():
            name = side or "features"
            prefix = f"{side}_" if side else ""
            shapes[name] = result.shape
            header = {"descr": "<f4", "fortran_order": False, "shape": result.shape}
            with member(name) as stream:
                np.lib.format.write_array_header_1_0(stream, header)
                for block in result.blocks():
                    stream.write(np.ascontiguousarray(block, "<f4").data)
            owners = result.owners() if extractor.descriptor.regional else None
            columns = {**result.columns(), "owners": owners}
            arrays = {prefix + name: v for name, v in columns.items() if v is not None}
            shapes |= {name: values.shape for name, values in arrays.items()}
            write_members(member, arrays)
        recipe = _recipe(extractor)
        if recipe is not None:
            write_members(member, {"recipe": np.array(recipe)})
    return shapes


def _recipe(extractor: FeatureExtractor) -> str | None:
    recipe = Recipe.of(extractor.network, extractor.descriptor)
    return None if recipe is None else str(recipe)


def _extractor(model: Any, descriptor: Descriptor | None) -> FeatureExtractor:
    ready = hasattr(model, "preprocessing") and hasattr(model, "key")
    return FeatureExtractor(model if ready else load_model(model), descriptor or Descriptor())
