"""A folder of images per class.

With ``query`` and ``gallery`` below the root, each with a folder per class, these are the two
sides. Without, every image is a query against all others.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kinrank.datasets.base import Dataset, Part
from kinrank.datasets.reid import ENDINGS
from kinrank.errors import FileFormatError


def class_folder(root: str | Path) -> Dataset:
    """Images in one folder per class below ``root``."""
    folder = Path(root)
    name = folder.resolve().name
    if (folder / "query").is_dir() and (folder / "gallery").is_dir():
        query, gallery = (_part(folder / side, folder) for side in ("query", "gallery"))
        return Dataset(name=name, protocol="retrieval", query=query, gallery=gallery, images=folder)
    images = _part(folder, folder)
    return Dataset(
        name=name,
        protocol="retrieval",
        query=images,
        gallery=images,
        images=folder,
        query_rows=np.arange(len(images)),
    )


def _part(folder: Path, root: Path) -> Part:
    files = [
        file
        for directory in sorted(path for path in folder.iterdir() if path.is_dir())
        for file in sorted(directory.rglob("*"))
        if file.suffix.lower() in ENDINGS
    ]
    if not files:
        raise FileFormatError(
            f"{folder} holds no images; it must hold a folder of images for each class."
        )
    labels = np.array([file.relative_to(folder).parts[0] for file in files])
    return Part(labels=labels, paths=[file.relative_to(root).as_posix() for file in files])
