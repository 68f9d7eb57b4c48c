"""Data sets: readers of the formats that exist, each with its protocol.

data = kinrank.datasets.load("path/to/Market-1501")
data = data.with_features(query_vectors, gallery_vectors)
print(data.evaluate(ranking))
"""

from __future__ import annotations

from kinrank.datasets.base import Dataset, Part
from kinrank.datasets.digits import digits
from kinrank.datasets.features import feature_folder, from_files, read_gnd, revisited
from kinrank.datasets.images import class_folder, cuhk03, dukemtmc, market1501, msmt17, veri776
from kinrank.datasets.load import formats, load, load_spec
from kinrank.datasets.pickles import load_plain_pickle
from kinrank.datasets.toy import toy

__all__ = [
    "Dataset",
    "Part",
    "class_folder",
    "cuhk03",
    "digits",
    "dukemtmc",
    "feature_folder",
    "formats",
    "from_files",
    "load",
    "load_plain_pickle",
    "load_spec",
    "market1501",
    "msmt17",
    "read_gnd",
    "revisited",
    "toy",
    "veri776",
]
