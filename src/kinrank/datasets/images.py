"""Folders of images: one per class, or with identity and camera in the file names.

========== ======================================= ============================== ================
set        folders or lists                        file name                      junk, distractor
========== ======================================= ============================== ================
Market1501 query, bounding_box_test                0001_c1s1_001051_00.jpg        -1, 0
DukeMTMC   query, bounding_box_test                0005_c2_f0046985.jpg           none, none
CUHK03-NP  query, bounding_box_test                0003_c1_21.png                 none, none
VeRi-776   image_query, image_test (name_*.txt)    0002_c002_00030600_0.jpg       none, none
MSMT17     list_query.txt, list_gallery.txt, test  0000/0000_000_01_0303m...jpg   none, none
========== ======================================= ============================== ================
"""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path

import numpy as np

from kinrank.datasets.base import Dataset, Part
from kinrank.errors import FileFormatError
from kinrank.reading import read_text

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp")
IDENTITY_CAMERA = re.compile(r"(-?\d+)_c(\d+)")


def market1501(root: str | Path) -> Dataset:
    """Market1501: ``query`` and ``bounding_box_test`` below ``root``."""
    return _from_folders("market1501", root)


def dukemtmc(root: str | Path) -> Dataset:
    """DukeMTMC-reID: ``query`` and ``bounding_box_test`` below ``root``."""
    return _from_folders("dukemtmc", root)


def veri776(root: str | Path) -> Dataset:
    """VeRi-776: ``image_query`` and ``image_test``, in the order of ``name_*.txt`` if present."""
    lists = ("name_query.txt", "name_test.txt")
    return _from_folders("veri776", root, ("image_query", "image_test"), lists)


def msmt17(root: str | Path) -> Dataset:
    """MSMT17 (V1 ``test``, V2 ``mask_test_v2``): the images of its two lists."""
    folder = Path(root)
    images = "mask_test_v2" if (folder / "mask_test_v2").is_dir() else "test"
    query, gallery = (_from_list(folder, f"list_{s}.txt", images) for s in ("query", "gallery"))
    return Dataset(name="msmt17", protocol="reid", query=query, gallery=gallery, images=folder)


def class_folder(root: str | Path) -> Dataset:
    """Images in one folder per class below ``root``.

    With ``query`` and ``gallery`` below the root, each with a folder per class, these are the two
    sides. Without, every image is a query against all others.
    """
    folder, rows = Path(root), None
    if (folder / "query").is_dir() and (folder / "gallery").is_dir():
        query, gallery = (_by_class(folder / side, folder) for side in ("query", "gallery"))
    else:
        query = gallery = _by_class(folder, folder)
        rows = np.arange(len(query))
    return Dataset(
        name=folder.resolve().name, protocol="retrieval", query=query, gallery=gallery,
        images=folder, query_rows=rows,
    )  # fmt: skip


def named_images(folder: Path, names: list[str] | None = None) -> list[str]:
    """The images of a folder by name, or those of a list."""
    if not folder.is_dir():
        raise FileFormatError(f"There is no folder of images {folder}.")
    if names is None:
        names = sorted(p.name for p in folder.iterdir() if p.suffix.lower() in ENDINGS)
    if not names:
        raise FileFormatError(f"{folder} holds no images ({', '.join(ENDINGS)}).")
    return names


def _from_folders(
    name: str, root: str | Path, folders: tuple[str, str] = ("query", "bounding_box_test"),
    lists: tuple[str, ...] = (),
) -> Dataset:  # fmt: skip
    sides = []
    for folder, file in zip_longest((Path(root, folder) for folder in folders), lists):
        listed = None if file is None else Path(root, file)
        order = read_text(listed).split() if listed is not None and listed.is_file() else None
        sides.append(_part(folder, named_images(folder, order)))
    query, gallery = sides
    return Dataset(name=name, protocol="reid", query=query, gallery=gallery, images=Path(root))


def _part(folder: Path, names: list[str]) -> Part:
    pairs = []
    for name in names:
        fields = IDENTITY_CAMERA.match(name)
        if fields is None:
            raise FileFormatError(
                f"{folder / name} must be named IDENTITY_cCAMERA..., "
                "such as 0001_c1s1_001051_00.jpg."
            )
        pairs.append((int(fields[1]), int(fields[2])))
    identities, cameras = np.array(pairs, np.int64).T
    return Part(labels=identities, cams=cameras, paths=[f"{folder.name}/{name}" for name in names])


def _from_list(root: Path, name: str, images: str) -> Part:
    """Lines of a path and an identity; the third field of the file name is the camera."""
    rows = []
    for number, line in enumerate(read_text(root / name).splitlines(), start=1):
        if not line.strip():
            continue
        path, _, identity = line.strip().rpartition(" ")
        fields = Path(path).name.split("_")
        if len(fields) < 3 or not fields[2].isdigit() or not identity.isdigit():
            raise FileFormatError(
                f"{root / name}, line {number}, must be 'path identity' with a path such as "
                f"0000/0000_000_01_0303morning_0015_0.jpg, got {line!r}."
            )
        rows.append((f"{images}/{path}", int(identity), int(fields[2])))
    if not rows:
        raise FileFormatError(f"{root / name} is empty; it must list images.")
    paths, identities, cameras = zip(*rows, strict=True)
    return Part(labels=np.array(identities), cams=np.array(cameras), paths=list(paths))


def _by_class(folder: Path, root: Path) -> Part:
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
