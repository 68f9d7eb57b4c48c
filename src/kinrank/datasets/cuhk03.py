"""CUHK03, labelled and detected boxes, the new protocol and the classic one.

Images are named PAIR_PERSON_VIEW_NUMBER.png (1_001_1_01.png), in ``images_labeled`` and
``images_detected``.

- New protocol (Zhong et al., CVPR 2017): 767/700 identities, many images per person, mAP and CMC.
  From ``cuhk03_new_protocol_config_*.mat`` or ``splits_new_*.json``, or from the folders ``query``
  and ``bounding_box_test`` of CUHK03-NP.
- Classic protocol (Li et al., CVPR 2014): twenty test sets of 100 identities, one image per person
  in the gallery, drawn at random many times; CMC. From ``splits_classic_*.json``, or from the
  ``testsets`` of ``cuhk-03.mat`` (HDF5, with the package h5py).
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kinrank.datasets.base import Dataset, Part, Protocol
from kinrank.datasets.images import market1501, named_images
from kinrank.errors import FileFormatError
from kinrank.optional import require
from kinrank.reading import reading
from kinrank.validation import check_choice, check_int

Boxes = Literal["labelled", "detected"]
# The files write it with one l.
FILE_WORD = {"labelled": "labeled", "detected": "detected"}


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
    folder, word = Path(root), FILE_WORD[boxes]
    if protocol == "new" and (folder / word / "query").is_dir():
        return replace(market1501(folder / word), name=f"cuhk03-np-{boxes}")
    name, number = f"cuhk03-{boxes}", 0
    shots: Protocol = "reid"
    if protocol == "classic":
        number, shots = check_int("split", split, 0, 19), "single_shot"
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
        query, gallery = (_part([names[row] for row in side], labels[side], word) for side in rows)
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
            sides.append(_part(names, labels, word))
    return sides[0], sides[1]


def _test_images(folder: Path, word: str, testset: set[tuple[int, int]]) -> Part:
    """All images of the identities of a test set, as queries and as gallery."""
    images = folder / f"images_{word}"
    names = [name for name in named_images(images) if _fields(images, name)[:2] in testset]
    if not names:
        raise FileFormatError(f"{images} holds no images of the test set.")
    # A person is a pair of cameras and a number within it.
    labels = [pair * 10_000 + person for pair, person, _ in (_fields(images, n) for n in names)]
    return _part(names, np.array(labels, np.int64), word)


def _testset(folder: Path, split: int) -> set[tuple[int, int]]:
    places = (folder / "cuhk-03.mat", folder / "cuhk03_release" / "cuhk-03.mat")
    file = next((file for file in places if file.is_file()), None)
    if file is None:
        raise FileFormatError(f"{folder} holds neither splits_classic_*.json nor cuhk-03.mat.")
    h5py = require("h5py", extra="cuhk03", purpose="Reading cuhk-03.mat")
    with reading(file, "the file of CUHK03"), h5py.File(file, "r") as content:
        rows = np.asarray(content[content["testsets"][0][split]]).T
        return {(int(pair), int(person)) for pair, person in rows}


def _part(names: list[str], labels: Any, word: str) -> Part:
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
