"""From an uploaded picture to the vector that is searched for.

A picture of a few bytes can become gigabytes when it is decoded, and some kinds of files are
programs. So the kind and the size are looked at first, and nothing is decoded twice.
"""

from __future__ import annotations

import io
import threading
from typing import Any, Protocol

import numpy as np

from kinrank.errors import InvalidInputError
from kinrank.features import Descriptor
from kinrank.features.extractor import FeatureExtractor
from kinrank.features.images import UnreadableError, read_image
from kinrank.features.networks import Network
from kinrank.optional import require
from kinrank.serve.problems import Problem
from kinrank.types import Floats

# What pictures come as. Others of Pillow's are drawings, run programs or have no bound.
_KINDS = frozenset({"AVIF", "BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP"})
_BYTES = 200_000_000  # that a picture may take while it is decoded
_INPUT = 1 << 22  # pixels that a network may get
_KIND = "unreadable-picture"


class Describer(Protocol):
    """Makes vectors like those of the index; name : what it is, for people."""

    @property
    def name(self) -> str: ...

    def describe(self, picture: bytes) -> Floats:
        """The vector of a picture file, (1, d)."""


class NetworkDescriber:
    """A network of ``kinrank.features``, as `kinrank extract` uses it.

    width : of the vectors that are wanted
    """

    def __init__(self, name: str, network: Network, descriptor: Descriptor, width: int) -> None:
        self.name = name
        self._extractor = FeatureExtractor(network, descriptor)
        self._lock = threading.Lock()  # one picture at a time is decoded, and each may be large
        blank = _pillow().new("RGB", (64, 64), (128, 128, 128))
        stream = io.BytesIO()
        blank.save(stream, "PNG")
        got = self.describe(stream.getvalue()).shape[1]
        if got != width:
            raise InvalidInputError(
                f"`model` must make vectors like those of the index ({width} columns), "
                f"got {name!r} with {got}."
            )

    def describe(self, picture: bytes) -> Floats:
        scales = self._extractor.descriptor.scales
        size = check_picture(picture, drafted=max(scales) <= 1)
        try:
            for scale in scales:
                wide, high = self._extractor.network.preprocessing.geometry(*size, scale)[0]
                if wide * high > _INPUT:
                    raise unreadable(f"the network would get {wide} x {high} pixels")
        except InvalidInputError as error:
            raise unreadable(str(error).rstrip(".")) from error
        with self._lock:
            rows = self._extractor([(picture, None)])
        if rows.failures:
            raise unreadable(rows.failures[0])
        return rows.features


class DigitDescriber:
    """The pixels of a handwritten digit, as the digits of the demonstration are described."""

    name = "8 x 8 pixels"
    side = 8

    def describe(self, picture: bytes) -> Floats:
        check_picture(picture, drafted=False)
        try:
            image = read_image(picture)
        except UnreadableError as error:
            raise unreadable(str(error)) from error
        small = image.convert("L").resize((self.side, self.side), _pillow().Resampling.BOX)
        grey = np.asarray(small, np.float32)
        edge = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
        # Ink is what differs from the paper, which is at the edge: dark on light, or light on dark.
        ink = grey - grey.min() if np.median(edge) < 128 else grey.max() - grey
        if not ink.any():
            raise Problem(422, _KIND, "The picture is of one grey and shows no digit.")
        unit: Floats = (ink / np.linalg.norm(ink)).reshape(1, -1)
        return unit


def check_picture(picture: bytes, *, drafted: bool) -> tuple[int, int]:
    """Width and height by the head of the file; a problem if it is none or too large.

    drafted : whether large JPEG files are decoded at a fraction of their size
    """
    pil = _pillow()
    pil.init()
    try:
        with pil.open(io.BytesIO(picture), formats=sorted(_KINDS & pil.OPEN.keys())) as image:
            width, height = image.size
            most = _BYTES // _bytes_of_pixel(image, drafted=drafted)
    except (pil.DecompressionBombError, pil.DecompressionBombWarning):
        raise unreadable("far too many pixels") from None
    except Exception as error:  # decoders raise anything on broken files
        raise unreadable("not a picture of a known kind, or a broken one") from error
    if width * height > most:
        raise unreadable(
            f"{width} x {height} pixels, where at most {most:,} of this kind are taken; "
            "send a smaller one"
        )
    return width, height


def _bytes_of_pixel(image: Any, *, drafted: bool) -> int:
    """At most, with the copies that turn it upright and into RGB."""
    if drafted and image.format in ("JPEG", "MPO"):
        return 8 if image.info.get("progressive") else 1  # these are held whole in any case
    if image.mode.startswith(("I", "F")):
        return 44
    return 12 if image.mode in ("RGB", "L", "1", "CMYK", "YCbCr") and image.format != "WEBP" else 20


def _pillow() -> Any:
    return require("PIL.Image", extra="images", purpose="Describing pictures")


def unreadable(reason: str) -> Problem:
    """A picture that cannot be used."""
    return Problem(422, _KIND, f"The picture could not be read: {reason}.")
