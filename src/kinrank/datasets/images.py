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

CUHK03, labelled and detected boxes, the new protocol and the classic one: images are named
PAIR_PERSON_VIEW_NUMBER.png (1_001_1_01.png), in ``images_labeled`` and ``images_detected``.

- New protocol (Zhong et al., CVPR 2017): 767/700 identities, many images per person, mAP and CMC.
  From ``cuhk03_new_protocol_config_*.mat`` or ``splits_new_*.json``, or from the folders ``query``
  and ``bounding_box_test`` of CUHK03-NP.
- Classic protocol (Li et al., CVPR 2014): twenty test sets of 100 identities, one image per person
  in the gallery, drawn at random many times; CMC. From ``splits_classic_*.json``, or from the
  ``testsets`` of ``cuhk-03.mat`` (HDF5, with the package h5py).
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kinrank.datasets.base import Dataset, Part, Protocol
from kinrank.errors import FileFormatError
from kinrank.optional import require
from kinrank.reading import read_text, reading
from kinrank.validation import check_choice, check_int

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp")
IDENTITY_CAMERA = re.compile(r"(-?\d+)_c(\d+)")
Boxes = Literal["labelled", "detected"]
# The files write it with one l.
FILE_WORD = {"labelled": "labeled", "detected": "detected"}


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
    folder = Path(root)
    rows = None
    if (folder / "query").is_dir() and (folder / "gallery").is_dir():
        query, gallery = (_by_class(folder / side, folder) for side in ("query", "gallery"))
    else:
        query = gallery = _by_class(folder, folder)
        rows = np.arange(len(query))
    return Dataset(
        name=folder.resolve().name,
        protocol="retrieval",
        query=query,
        gallery=gallery,
        images=folder,
        query_rows=rows,
    )


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
    name: str,
    root: str | Path,
    folders: tuple[str, str] = ("query", "bounding_box_test"),
    lists: tuple[str, ...] = (),
) -> Dataset:
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


def cuhk03(
    root: str | Path,
    boxes: Boxes = "labelled",
    protocol: Literal["new", "classic"] = "new",
    split: int = 0,
) -> Dataset:
    """CUHK03 from its folder.

    Parameters
    ----------
    root : the folder with ``images_labeled`` or ``images_detected`` and the split files, or with
        CUHK03-NP's ``labeled`` and ``detected``
    boxes : boxes drawn by people, or those of a detector
    protocol : new (767/700 identities) or classic (one of twenty splits of 100 test identities)
    split : the number of the classic split, 0 to 19
    """
    check_choice("boxes", boxes, ("labelled", "detected"))
    check_choice("protocol", protocol, ("new", "classic"))
    folder = Path(root)
    word = FILE_WORD[boxes]
    if protocol == "new" and (folder / word / "query").is_dir():
        return replace(market1501(folder / word), name=f"cuhk03-np-{boxes}")
    name = f"cuhk03-{boxes}"
    number = 0
    shots: Protocol = "reid"
    if protocol == "classic":
        number = check_int("split", split, 0, 19)
        shots = "single_shot"
        name = f"cuhk03-classic-{word}-{number}"
    listed = folder / f"splits_{protocol}_{word}.json"
    if listed.is_file():
        query, gallery = _listed_split(listed, word, number)
    elif protocol == "classic":
        query = gallery = _test_images(folder, word, _testset(folder, number))
    else:
        query, gallery = _configured_split(folder, word, listed.name)
    return Dataset(name=name, protocol=shots, query=query, gallery=gallery, images=folder)


def _configured_split(folder: Path, word: str, listed: str) -> tuple[Part, Part]:
    config = folder / f"cuhk03_new_protocol_config_{word}.mat"
    if not config.is_file():
        raise FileFormatError(f"{folder} holds neither {config.name} nor {listed}.")
    scipy_io = require("scipy.io", extra="scipy", purpose=f"Reading {config.name}")
    with reading(config, "a CUHK03 configuration"):
        content = scipy_io.loadmat(config)
        names = [str(cell[0]) for cell in content["filelist"].ravel()]
        labels = content["labels"].ravel().astype(np.int64)
        rows = [content[key].ravel().astype(np.int64) - 1 for key in ("query_idx", "gallery_idx")]
        query, gallery = (_boxes([names[row] for row in side], labels[side], word) for side in rows)
    return query, gallery


def _listed_split(file: Path, word: str, split: int) -> tuple[Part, Part]:
    """Entries of path, identity and camera; the path is another machine's but for its name."""
    sides = []
    with reading(file, "a list of splits with `query` and `gallery`"):
        splits = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(splits, list) or not all("query" in s and "gallery" in s for s in splits):
            raise ValueError("something else")
        if split >= len(splits):
            raise FileFormatError(f"{file} has {len(splits)} splits and no split {split}.")
        for entries in (splits[split]["query"], splits[split]["gallery"]):
            names = [str(entry[0]).replace("\\", "/").rpartition("/")[2] for entry in entries]
            labels = np.array([int(entry[1]) for entry in entries], np.int64)
            sides.append(_boxes(names, labels, word))
    return sides[0], sides[1]


def _test_images(folder: Path, word: str, testset: set[tuple[int, int]]) -> Part:
    """All images of the identities of a test set, as queries and as gallery."""
    images = folder / f"images_{word}"
    names = [name for name in named_images(images) if _fields(images, name)[:2] in testset]
    if not names:
        raise FileFormatError(f"{images} holds no images of the test set.")
    # A person is a pair of cameras and a number within it.
    labels = [pair * 10_000 + person for pair, person, _ in (_fields(images, n) for n in names)]
    return _boxes(names, np.array(labels, np.int64), word)


def _testset(folder: Path, split: int) -> set[tuple[int, int]]:
    places = (folder / "cuhk-03.mat", folder / "cuhk03_release" / "cuhk-03.mat")
    file = next((file for file in places if file.is_file()), None)
    if file is None:
        raise FileFormatError(f"{folder} holds neither splits_classic_*.json nor cuhk-03.mat.")
    h5py = require("h5py", extra="cuhk03", purpose="Reading cuhk-03.mat")
    with reading(file, "the file of CUHK03"), h5py.File(file, "r") as content:
        rows = np.asarray(content[content["testsets"][0][split]]).T
        return {(int(pair), int(person)) for pair, person in rows}


def _boxes(names: list[str], labels: Any, word: str) -> Part:
    views = np.array([_fields(Path(f"images_{word}"), name)[2] for name in names], np.int64)
    return Part(labels=labels, cams=views, paths=[f"images_{word}/{name}" for name in names])


def _fields(folder: Path, name: str) -> tuple[int, int, int]:
    try:
        pair, person, view, _ = (int(field) for field in Path(name).stem.split("_"))
    except ValueError:
        raise FileFormatError(
            f"{folder / name} must be named PAIR_PERSON_VIEW_NUMBER, such as 1_001_1_01.png."
        ) from None
    return pair, person, view
