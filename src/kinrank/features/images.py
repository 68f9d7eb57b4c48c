"""Picture files of any kind as upright RGB, and RGB as the input of a network.

Files come from anywhere: whatever is wrong with one is said in a sentence and is nobody else's
problem.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kinrank.errors import KinrankError
from kinrank.features.preprocess import Preprocessing
from kinrank.optional import require

MAX_PIXELS = 178_956_970  # from here on Pillow itself takes a file for a decompression bomb
_ORIENTATION = 0x0112
_PURPOSE = "Reading pictures"
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
_DRAFT = 2  # JPEG files are decoded at most this many times larger than needed


class UnreadableError(KinrankError):
    """A file that cannot be used as a picture; the message says why."""


def read_image(
    file: Path | bytes, box: Sequence[float] | None = None, want: Preprocessing | None = None
) -> Any:
    """The picture in ``file``, or of these bytes, as an upright RGB image of Pillow.

    The first frame of several; transparent parts on white; 16 bits become 8; turned as the EXIF
    data say; then cut to ``box`` (left, top, right, bottom in pixels of the upright picture).

    want : what it is for: a JPEG file that is much larger is decoded at a fraction of its size
    """
    pil: Any = require("PIL.Image", extra="images", purpose=_PURPOSE)
    try:
        with io.BytesIO(file) if isinstance(file, bytes) else file.open("rb") as stream:
            if not stream.read(1):
                raise UnreadableError("an empty file")
            stream.seek(0)
            image = pil.open(stream)
            if image.width * image.height > MAX_PIXELS:
                raise UnreadableError(
                    f"{image.width} x {image.height} pixels, more than {MAX_PIXELS:,}: perhaps a "
                    "decompression bomb"
                )
            if want is not None and box is None:
                _use_draft(image, want)
            image.load()  # before all else: a broken file must not fail where that is excused
        upright = _to_rgb(pil, image)
        turn = _TURNS.get(_orientation(image))
        if turn is not None:
            upright = upright.transpose(pil.Transpose[turn])
        return upright if box is None else _cut(upright, box)
    except (UnreadableError, MemoryError):
        raise
    except Exception as error:  # decoders raise anything on broken files
        raise UnreadableError(_reason(pil, error)) from error


def to_input(
    image: Any, preprocessing: Preprocessing, scale: float = 1.0
) -> npt.NDArray[np.float32]:
    """An RGB image as the input of a network, (3, height, width), or (height, width, 3)."""
    pil: Any = require("PIL.Image", extra="images", purpose=_PURPOSE)
    target, source = preprocessing.geometry(image.width, image.height, scale)
    small = image.resize(target, pil.Resampling[preprocessing.filter.upper()], box=source)
    values = np.asarray(small).transpose(2, 0, 1).astype(np.float32, order="C")
    mean, std = (np.array(v, np.float64) for v in (preprocessing.mean, preprocessing.std))
    values *= (preprocessing.pixel_max / 255 / std).astype(np.float32)[:, None, None]
    values -= (mean / std).astype(np.float32)[:, None, None]
    if preprocessing.channels == "bgr":
        values = values[::-1]
    if preprocessing.layout == "nhwc":
        values = values.transpose(1, 2, 0)
    return np.ascontiguousarray(values)


@contextlib.contextmanager
def large_files() -> Iterator[None]:
    """Leave the judgement of large files to ``read_image``; not for use inside threads."""
    pil: Any = require("PIL.Image", extra="images", purpose=_PURPOSE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pil.DecompressionBombWarning)
        # Odd but readable files (a damaged EXIF block, palette oddities) are read as they are.
        warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
        yield


def _orientation(image: Any) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # noqa: BLE001 - a broken EXIF block turns nothing
        return 1


def _use_draft(image: Any, want: Preprocessing) -> None:
    """Let the decoder of a JPEG file leave out detail that would be averaged away."""
    width, height = image.size
    factor = 0.0
    for size in ((width, height), (height, width)):  # it may have to be turned
        (across, down), (left, top, right, bottom) = want.geometry(*size)
        factor = max(factor, across / (right - left), down / (bottom - top))
    if _DRAFT * factor < 1:
        image.draft("RGB", (int(width * _DRAFT * factor) + 1, int(height * _DRAFT * factor) + 1))


def _to_rgb(pil: Any, image: Any) -> Any:
    if image.mode == "RGB":
        return image
    if image.mode in ("L", "CMYK", "YCbCr", "HSV", "1"):
        return image.convert("RGB")
    if image.mode.startswith(("I", "F")):
        return pil.fromarray(_eight_bits(np.asarray(image))).convert("RGB")
    # Palettes may have transparent entries, as may all that is left.
    whole = image.convert("RGBA")
    paper = pil.new("RGBA", whole.size, (255, 255, 255, 255))
    return pil.alpha_composite(paper, whole).convert("RGB")


def _eight_bits(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Grey values of 16 or 32 bits, or floats, over the range that they are likely to have."""
    wide = np.nan_to_num(values.astype(np.float64))
    top = float(wide.max(initial=0))
    if values.dtype.kind == "f" and top <= 255:
        factor = 255.0 if top <= 1 else 1.0
    else:
        factor = 255 / max(65535.0, top)
    return np.asarray(np.clip(np.round(wide * factor), 0, 255), np.uint8)


def _cut(image: Any, box: Sequence[float]) -> Any:
    left, top, right, bottom = (round(float(side)) for side in box)
    width, height = image.size
    inside = (max(0, left), max(0, top), min(width, right), min(height, bottom))
    if inside[0] >= inside[2] or inside[1] >= inside[3]:
        raise UnreadableError(f"its box {tuple(box)} lies outside of {width} x {height} pixels")
    return image.crop(inside)


def _reason(pil: Any, error: Exception) -> str:
    if isinstance(error, pil.UnidentifiedImageError):
        return "not a picture of a known kind, or a broken one"
    if isinstance(error, pil.DecompressionBombError):
        return f"more than {MAX_PIXELS:,} pixels: perhaps a decompression bomb"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__
