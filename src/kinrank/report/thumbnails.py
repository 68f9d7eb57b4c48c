"""Images for pages, small enough to live inside them."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from kinrank.datasets.base import Dataset
from kinrank.png import encode_grey

HEIGHT = 128
ORANGE = (255, 140, 0)
Side: TypeAlias = Literal["query", "gallery"]


def has_pictures(data: Dataset) -> bool:
    """Whether examples can be shown."""
    if data.gallery.pixels is not None and data.query.pixels is not None:
        return True
    return data.image("query", 0) is not None and data.image("gallery", 0) is not None


def picture(data: Dataset, side: Side, row: int) -> str | None:
    """An image as a data URI; a query of the Revisited protocol with its box in orange."""
    pixels = getattr(data, side).pixels
    if pixels is not None:
        return _uri("png", encode_grey(np.asarray(pixels[row], np.uint8)))
    file = data.image(side, row)
    if file is None:
        return None
    box = data.gnd[row].get("bbx") if side == "query" and data.gnd is not None else None
    return _thumbnail(file, box)


def _thumbnail(file: Path, box: Sequence[float] | None) -> str | None:
    from PIL import Image, ImageDraw  # matplotlib brings it

    try:
        with Image.open(file) as opened:
            image = opened.convert("RGB")
    except OSError:  # not an image, or a broken one
        return None
    if box is not None:
        line = max(2, round(image.height / HEIGHT * 2.5))
        ImageDraw.Draw(image).rectangle([*map(float, box)], outline=ORANGE, width=line)
    return jpeg_uri(image.resize((max(1, round(image.width * HEIGHT / image.height)), HEIGHT)))


def jpeg_uri(image: Any) -> str:
    """A picture of Pillow as a data URI."""
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=85)
    return _uri("jpeg", stream.getvalue())


def _uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{b64encode(content).decode()}"
