"""scikit-learn's handwritten digits: 1,797 images of 8 x 8 pixels, no download."""

from __future__ import annotations

import numpy as np

from kinrank.datasets.base import Dataset, Part
from kinrank.optional import require

EVERY = 18


def digits() -> Dataset:
    """The digits as unit vectors of their pixels: 100 queries, every eighteenth image."""
    sklearn = require("sklearn.datasets", extra="demo", purpose="The digits")
    content = sklearn.load_digits()
    pixels = np.asarray(content.data, np.float32)
    pixels /= np.linalg.norm(pixels, axis=1, keepdims=True)
    is_query = np.arange(len(pixels)) % EVERY == 0
    # Dark ink on white paper.
    pictures = np.clip(255 - 16 * np.asarray(content.images), 0, 255).astype(np.uint8)
    query, gallery = (
        Part(labels=content.target[side], features=pixels[side], pixels=pictures[side])
        for side in (is_query, ~is_query)
    )
    return Dataset(name="digits", protocol="reid", query=query, gallery=gallery)
