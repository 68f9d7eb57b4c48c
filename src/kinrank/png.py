"""Small grey pictures as PNG files."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY_8_BIT = (8, 0, 0, 0, 0)  # depth, colour type, compression, filter, interlace


def encode_grey(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A PNG file of ``pixels``, (height, width), 0 is black."""
    height, width = pixels.shape
    # Each line begins with its filter: 0, none.
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels], axis=1)
    header = struct.pack(">IIBBBBB", width, height, *_GREY_8_BIT)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
