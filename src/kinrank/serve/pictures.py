"""Pictures of the rows: files of one folder and nothing else, or small grey ones in memory."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kinrank.errors import InvalidInputError
from kinrank.png import encode_grey

KINDS = {
    ".bmp": "image/bmp",
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}
SIDES = (16, 1024)  # of what is shown, in pixels
_KEPT = 4096  # small pictures that are kept
Picture: TypeAlias = tuple[bytes, str]  # and what they are, a media type
# The picture of that name, no larger than so many pixels where that can be done.
Pictures: TypeAlias = Callable[[str, int], Picture | None]


class FolderPictures:
    """Files below a folder. Names that lead out of it, also by links, are as if not there."""

    def __init__(self, folder: str | Path) -> None:
        root = Path(folder)
        if not root.is_dir():
            raise InvalidInputError(f"`images` must be a folder, got {str(folder)!r}.")
        self._root = root.resolve()
        self._shrinks = find_spec("PIL") is not None

    def __call__(self, name: str, side: int) -> Picture | None:
        file = self._find(name)
        if file is None:
            return None
        small = _small(file, file.stat().st_mtime_ns, side) if self._shrinks else None
        return small or (file.read_bytes(), KINDS[file.suffix.lower()])

    def _find(self, name: str) -> Path | None:
        """The file of a row: named so, or so with the ending of a picture."""
        for ending in ("", *KINDS):
            try:
                file = (self._root / f"{name}{ending}").resolve(strict=True)
            except (OSError, ValueError, RuntimeError):  # not there; a zero byte; links in a circle
                continue
            inside = file.is_relative_to(self._root)
            if inside and file.is_file() and file.suffix.lower() in KINDS:
                return file
        return None


def grey_pictures(pixels: dict[str, npt.NDArray[np.uint8]]) -> Pictures:
    """Small pictures in memory, by name, (height, width) each, 0 is black."""
    return lambda name, _: (encode_grey(pixels[name]), "image/png") if name in pixels else None


@lru_cache(_KEPT)
def _small(file: Path, changed: int, side: int) -> Picture | None:  # noqa: ARG001  part of the key
    """A file made smaller; None if it cannot be read, and then it is shown as it is."""
    from kinrank.features.images import UnreadableError, read_image

    try:
        image: Any = read_image(file)
    except UnreadableError:
        return None
    image.thumbnail((side, side))
    out = io.BytesIO()
    image.save(out, "JPEG", quality=88)
    return out.getvalue(), "image/jpeg"
