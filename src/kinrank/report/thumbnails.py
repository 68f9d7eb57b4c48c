"""Images for pages, small enough to live inside them."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from kinrank.datasets.base import Dataset
from kinrank.errors import OptionalDependencyError
from kinrank.optional import require
from kinrank.png import data_uri

HEIGHT = 128
MAX_RAW_BYTES = 40_000
TYPES = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}
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
        return data_uri(np.asarray(pixels[row], np.uint8))
    file = data.image(side, row)
    if file is None:
        return None
    is_boxed = side == "query" and data.gnd is not None
    return _thumbnail(file, data.gnd[row].get("bbx") if is_boxed and data.gnd else None)


def _thumbnail(file: Path, box: Sequence[float] | None) -> str | None:
    try:
        image_module: Any = require("PIL.Image", extra="images", purpose="Thumbnails")
        draw_module: Any = require("PIL.ImageDraw", extra="images", purpose="Thumbnails")
    except OptionalDependencyError:
        return _raw(file)
    try:
        with image_module.open(file) as opened:
            image = opened.convert("RGB")
    except OSError:  # not an image, or a broken one
        return None
    if box is not None:
        line = max(2, round(image.height / HEIGHT * 2.5))
        draw_module.Draw(image).rectangle([*map(float, box)], outline=ORANGE, width=line)
    return jpeg_uri(image.resize((max(1, round(image.width * HEIGHT / image.height)), HEIGHT)))


def jpeg_uri(image: Any) -> str:
    """A picture of Pillow as a data URI."""
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=85)
    return _uri("jpeg", stream.getvalue())


def _raw(file: Path) -> str | None:
    """The file itself, if it is small and an image that browsers know."""
    if file.stat().st_size > MAX_RAW_BYTES:
        return None
    content = file.read_bytes()
    kind = next((name for magic, name in TYPES.items() if content.startswith(magic)), None)
    return None if kind is None else _uri(kind, content)


def _uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{b64encode(content).decode()}"
