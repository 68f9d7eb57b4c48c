"""Which pictures: those of a folder, of a data set, or a list of files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import FileFormatError, InvalidInputError

if TYPE_CHECKING:
    from kinrank.datasets import Dataset

ENDINGS = (
    ".jpg",
    ".jpeg",
    ".png",
    ".bmp",
    ".gif",
    ".webp",
    ".tif",
    ".tiff",
    ".ppm",
    ".pgm",
)
Failure = tuple[str, str]


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageList:
    """Pictures in order, and what is known of them.

    root : the folder that names are below
    names : file names
    labels, cams : (n,) classes or identities, and cameras; None where there are none
    boxes : for each picture the part to look at (left, top, right, bottom), or None
    skipped : folders that could not be listed, with the reason
    fixed : row i must be picture i, so one that cannot be read gets a row of zeros
    """

    root: Path
    names: Sequence[str]
    labels: npt.NDArray[Any] | None = None
    cams: npt.NDArray[Any] | None = None
    boxes: Sequence[Sequence[float] | None] | None = None
    skipped: tuple[Failure, ...] = ()
    fixed: bool = False

    def __len__(self) -> int:
        return len(self.names)

    def item(self, row: int) -> tuple[Path, Sequence[float] | None]:
        """The file of a picture, and the box to cut out of it."""
        return self.root / self.names[row], None if self.boxes is None else self.boxes[row]

    def batches(self, rows: range, size: int) -> Iterator[list[Any]]:
        """The files and boxes of ``rows``, ``size`` at a time."""
        for low in range(rows.start, rows.stop, size):
            yield [self.item(row) for row in range(low, min(rows.stop, low + size))]


def as_list(images: ImageList | str | Path | Sequence[str | Path]) -> ImageList:
    """Whatever names pictures, as a list."""
    if isinstance(images, ImageList):
        return images
    if isinstance(images, (str, Path)):
        path = Path(images)
        single = path.is_file()
        return ImageList(root=path.parent, names=[path.name]) if single else find_images(path)
    names = [str(name) for name in images]
    if not names:
        raise InvalidInputError("`images` must name at least one file, got none.")
    return ImageList(root=Path(), names=names)


def collect(text: str, *, boxes: bool = True) -> dict[str, ImageList]:
    """The pictures of a folder or a data set, by side.

    A folder of pictures has one side, without a name; so has a data set whose queries are its
    gallery. Other data sets have ``query`` and ``gallery``.

    text : a folder, or a data set as `kinrank compare` takes it: ``PATH,format=...``
    boxes : cut queries to the boxes of the data set, if it has any
    """
    from kinrank.datasets import load_spec  # brings numba, which pictures alone do not need

    path = Path(text)
    if path.is_dir() and _is_plain(path):
        return {"": find_images(path)}
    return from_dataset(load_spec(text), boxes=boxes)


def find_images(root: str | Path) -> ImageList:
    """All pictures below ``root``, sorted; the first folder below it is the label.

    Labels are left out if a picture lies in ``root`` itself. Files with other endings than those of
    pictures are not looked at.
    """
    top = Path(root)
    skipped: list[Failure] = []
    names = []
    next(top.iterdir(), None)  # a root that cannot be read is an error, not one without pictures

    def skip(error: OSError) -> None:
        folder = Path(error.filename).relative_to(top).as_posix()
        skipped.append((f"{folder}/", error.strerror or str(error)))

    for folder, below, files in os.walk(top, onerror=skip):
        below.sort()
        start = Path(folder).relative_to(top)
        names += [(start / name).as_posix() for name in files if name.lower().endswith(ENDINGS)]
    if not names:
        lost = f" ({len(skipped)} folders could not be read)" if skipped else ""
        raise FileFormatError(f"{top} holds no pictures ({', '.join(ENDINGS)}){lost}.")
    names.sort(key=lambda name: name.split("/"))  # folder by folder, as data sets are read
    labels = [name.partition("/")[0] for name in names if "/" in name]
    known = np.array(labels) if len(labels) == len(names) else None
    return ImageList(root=top, names=names, labels=known, skipped=tuple(skipped))


def from_dataset(data: Dataset, *, boxes: bool = True) -> dict[str, ImageList]:
    """The pictures of a data set, by side; their rows will be in its order."""
    if data.images is None:
        raise InvalidInputError(
            f"The data set {data.name} does not say where its pictures are: name their folder with "
            "`images`."
        )
    if data.query is data.gallery:
        return {"": _side(data, "query")}
    boxes_of = [entry.get("bbx") for entry in data.gnd] if boxes and data.gnd is not None else []
    cut = [None if box is None else [float(side) for side in box] for box in boxes_of]
    cuts = {"query": cut if any(cut) else None, "gallery": None}
    return {name: _side(data, name, cuts[name]) for name in cuts}


def _side(
    data: Dataset, name: str, boxes: Sequence[Sequence[float] | None] | None = None
) -> ImageList:
    part = getattr(data, name)
    if part.paths is None:
        raise InvalidInputError(
            f"The {name} of {data.name} has no file names, so there are no pictures to read."
        )
    assert data.images is not None
    known = {"labels": part.labels, "cams": part.cams, "boxes": boxes}
    return ImageList(root=data.images, names=list(part.paths), fixed=True, **known)


def _is_plain(path: Path) -> bool:
    """Whether a folder is just pictures, perhaps in a folder per class."""
    from kinrank.datasets.load import detect

    try:
        name = detect(path)
    except FileFormatError:
        return True
    split = (path / "query").is_dir() and (path / "gallery").is_dir()
    return name == "features" or (name == "folder" and not split)
