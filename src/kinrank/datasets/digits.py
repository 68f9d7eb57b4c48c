"""scikit-learn's handwritten digits: 1,797 images of 8 x 8 pixels, no download."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kinrank.datasets.base import Dataset, Part
from kinrank.optional import require

EVERY = 18


def digits() -> Dataset:
    """The digits as unit vectors of their pixels: 100 queries, every eighteenth image."""
    table = _table()
    ink = table[:, :-1]
    target = table[:, -1].astype(int)
    pixels = ink.astype(np.float32)
    pixels /= np.linalg.norm(pixels, axis=1, keepdims=True)
    is_query = np.arange(len(pixels)) % EVERY == 0
    # Dark ink on white paper.
    pictures = np.clip(255 - 16 * ink.reshape(-1, 8, 8), 0, 255).astype(np.uint8)
    query, gallery = (
        Part(labels=target[side], features=pixels[side], pixels=pictures[side])
        for side in (is_query, ~is_query)
    )
    return Dataset(name="digits", protocol="reid", query=query, gallery=gallery)


def _table() -> npt.NDArray[np.float64]:
    """(1797, 65): 64 pixels and the digit; to import scikit-learn would take a second."""
    package = find_spec("sklearn")
    for folder in (package and package.submodule_search_locations) or ():
        file = Path(folder, "datasets", "data", "digits.csv.gz")
        if file.is_file():
            return np.loadtxt(file, delimiter=",")
    content = require("sklearn.datasets", extra="demo", purpose="The digits").load_digits()
    return np.column_stack([content.data, content.target])
