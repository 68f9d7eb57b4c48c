"""Readers, on folders written in the official layouts."""

import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from kinrank import (
    FileFormatError,
    InvalidInputError,
    OptionalDependencyError,
    UnknownNameError,
    datasets,
)

OFFICIAL = {
    "imlist": [f"radcliffe_{i:06d}" for i in range(6)],
    "qimlist": ["all_souls_000013", "oxford_002416"],
    "gnd": [
        {"bbx": [1.0, 2.0, 3.0, 4.0], "easy": [0, 1], "hard": [2], "junk": [3]},
        {"bbx": [1.0, 2.0, 3.0, 4.0], "easy": [], "hard": np.array([5]), "junk": []},
    ],
}


def touch(root: Path, *names: str) -> None:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")


@pytest.mark.parametrize("name", ["gnd_roxford5k.pkl", "gnd_rparis6k.pkl"])
def test_revisited_pkl(tmp_path: Path, name) -> None:
    (tmp_path / name).write_bytes(pickle.dumps(OFFICIAL, protocol=2))
    touch(tmp_path, "jpg/radcliffe_000004.jpg")
    data = datasets.load(tmp_path)
    assert data.name == name[4:-4]
    assert data.protocol == "revisited"
    assert data.headlines == ("mAP E", "mAP M", "mAP H")
    assert data.query.paths == ["all_souls_000013.jpg", "oxford_002416.jpg"]
    assert len(data.gallery) == 6
    assert data.image("gallery", 4) == tmp_path / "jpg" / "radcliffe_000004.jpg"
    assert data.image("gallery", 5) is None
    assert data.relevance(0).tolist() == [1, 1, 1, -1, 0, 0]
    ranking = np.array([[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0]])
    assert data.evaluate(ranking).summary()["mAP M"] == 1.0
    with pytest.raises(InvalidInputError, match="over another gallery"):
        data.evaluate(np.array([[6], [0]]))


def test_revisited_json_has_the_lists_alone_or_the_whole(tmp_path: Path) -> None:
    plain = [{**e, "hard": list(map(int, e["hard"]))} for e in OFFICIAL["gnd"]]
    for content in (plain, {**OFFICIAL, "gnd": plain}):
        (tmp_path / "gnd.json").write_text(json.dumps(content))
        data = datasets.load(tmp_path / "gnd.json")
        assert [list(entry["easy"]) for entry in data.gnd] == [[0, 1], []]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "must be a Revisited ground truth"),
        ('{"a": 1}', "must have the key 'gnd'"),
        ("[]", "must be a list with one mapping per query"),
        ('[{"easy": [0]}]', "must have the keys 'easy', 'hard' and 'junk'"),
        (
            '{"imlist": ["a"], "gnd": [{"easy": [1], "hard": [], "junk": []}]}',
            "rows from 0 to 0, got 1",
        ),
        ('{"imlist": [1], "gnd": [{"easy": [], "hard": [], "junk": []}]}', "lists of names"),
    ],
)
def test_broken_ground_truth(tmp_path: Path, content, message) -> None:
    (tmp_path / "gnd.json").write_text(content)
    with pytest.raises(FileFormatError, match=message):
        datasets.revisited(tmp_path)


def test_market1501(tmp_path: Path) -> None:
    touch(tmp_path, "query/0001_c1s1_001051_00.jpg", "query/0002_c3s1_000551_00.jpg")
    touch(tmp_path, "query/Thumbs.db")
    touch(
        tmp_path,
        "bounding_box_test/-1_c1s1_000401_03.jpg",
        "bounding_box_test/0000_c1s1_000151_01.jpg",
        "bounding_box_test/0001_c1s1_002301_02.jpg",
        "bounding_box_test/0001_c6s3_086542_02.jpg",
        "bounding_box_test/0002_c1s1_000451_03.jpg",
    )
    data = datasets.load(tmp_path)
    assert data.name == "market1501"
    assert data.query.labels.tolist() == [1, 2]
    assert data.query.cams.tolist() == [1, 3]
    assert data.gallery.labels.tolist() == [-1, 0, 1, 1, 2]
    assert data.gallery.cams.tolist() == [1, 1, 1, 6, 1]
    assert data.relevance(0).tolist() == [-1, 0, -1, 1, 0]
    # Junk and the query's own camera are out; the distractor 0 counts as wrong.
    result = data.evaluate(np.array([[0, 2, 1, 3, 4], [4, 0, 1, 2, 3]]))
    assert result.per_query["mAP"].tolist() == [0.5, 1.0]


def test_dukemtmc(tmp_path: Path) -> None:
    touch(tmp_path, "query/0005_c2_f0046985.jpg", "bounding_box_test/0005_c5_f0051341.jpg")
    data = datasets.load(tmp_path)
    assert data.name == "dukemtmc"
    assert (data.gallery.labels[0], data.gallery.cams[0]) == (5, 5)


def test_veri776_takes_the_order_of_its_lists(tmp_path: Path) -> None:
    touch(tmp_path, "image_query/0002_c002_00030600_0.jpg")
    touch(tmp_path, "image_test/0002_c001_00030600_0.jpg", "image_test/0005_c019_00000001_0.jpg")
    assert datasets.load(tmp_path).gallery.labels.tolist() == [2, 5]
    (tmp_path / "name_query.txt").write_text("0002_c002_00030600_0.jpg\n")
    (tmp_path / "name_test.txt").write_text("0005_c019_00000001_0.jpg\n0002_c001_00030600_0.jpg\n")
    data = datasets.load(tmp_path)
    assert data.name == "veri776"
    assert data.gallery.labels.tolist() == [5, 2]
    assert data.gallery.cams.tolist() == [19, 1]


@pytest.mark.parametrize("folder", ["test", "mask_test_v2"])
def test_msmt17(tmp_path: Path, folder) -> None:
    name = "0000/0000_000_01_0303morning_0015_0.jpg"
    touch(tmp_path, f"{folder}/{name}")
    (tmp_path / "list_query.txt").write_text(f"{name} 0\n")
    (tmp_path / "list_gallery.txt").write_text(
        "0000/0000_001_14_0303noon_0015_0.jpg 0\n\n0001/0001_000_02_0303noon_0001_1.jpg 1\n"
    )
    data = datasets.load(tmp_path)
    assert data.gallery.labels.tolist() == [0, 1]
    assert data.gallery.cams.tolist() == [14, 2]
    assert data.image("query", 0) == tmp_path / folder / name
    (tmp_path / "list_query.txt").write_text("nonsense\n")
    with pytest.raises(FileFormatError, match="line 1, must be 'path identity'"):
        datasets.load(tmp_path)


NAMES = ["1_001_1_01.png", "1_001_2_06.png", "1_002_1_01.png", "1_002_2_06.png", "2_001_1_01.png"]


@pytest.mark.parametrize(("boxes", "word"), [("labelled", "labeled"), ("detected", "detected")])
def test_cuhk03_new_protocol_from_its_configuration(tmp_path: Path, boxes, word) -> None:
    from scipy.io import savemat

    touch(tmp_path, *(f"images_{word}/{name}" for name in NAMES))
    cells = np.empty((len(NAMES), 1), object)
    cells[:, 0] = NAMES
    content = {
        "filelist": cells,
        "labels": np.array([[1, 1, 2, 2, 3]]).T,
        "query_idx": np.array([[1, 3]]),
        "gallery_idx": np.array([[2, 4]]),
    }
    savemat(tmp_path / f"cuhk03_new_protocol_config_{word}.mat", content)
    data = datasets.load(tmp_path, boxes=boxes)
    assert data.name == f"cuhk03-{boxes}"
    assert data.protocol == "reid"
    assert data.query.paths == [f"images_{word}/1_001_1_01.png", f"images_{word}/1_002_1_01.png"]
    assert data.gallery.labels.tolist() == [1, 2]
    assert data.gallery.cams.tolist() == [2, 2]


def test_without_scipy_a_configuration_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "images_labeled").mkdir()
    (tmp_path / "cuhk03_new_protocol_config_labeled.mat").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(OptionalDependencyError, match=r"kinrank\[scipy\]"):
        datasets.cuhk03(tmp_path)


def test_cuhk03_new_protocol_from_splits(tmp_path: Path) -> None:
    entry = {
        "query": [["/somewhere/else/1_001_1_01.png", 7, 0]],
        "gallery": [["C:\\data\\1_001_2_06.png", 7, 1]],
    }
    (tmp_path / "images_labeled").mkdir()
    (tmp_path / "splits_new_labeled.json").write_text(json.dumps([entry]))
    data = datasets.cuhk03(tmp_path)
    assert data.gallery.paths == ["images_labeled/1_001_2_06.png"]
    assert data.gallery.labels.tolist() == [7]


def test_cuhk03_np_folders(tmp_path: Path) -> None:
    touch(tmp_path, "labeled/query/0003_c1_21.png", "labeled/bounding_box_test/0003_c2_28.png")
    data = datasets.load(tmp_path)
    assert data.name == "cuhk03-np-labelled"
    assert data.gallery.cams.tolist() == [2]


def test_cuhk03_classic(tmp_path: Path) -> None:
    entries = [[f"images/{name}", int(name[2:5]), int(name[6]) - 1] for name in NAMES[:4]]
    (tmp_path / "splits_classic_detected.json").write_text(
        json.dumps([{"query": entries, "gallery": entries}])
    )
    data = datasets.cuhk03(tmp_path, boxes="detected", protocol="classic")
    assert data.protocol == "single_shot"
    assert data.headlines == ("R1", "R5", "R10")
    # Each list begins with the image itself, then the right one of the other camera.
    ranking = np.array([[0, 1, 2, 3], [1, 0, 2, 3], [2, 3, 0, 1], [3, 2, 0, 1]])
    assert data.evaluate(ranking)["R1"] == 1.0
    with pytest.raises(FileFormatError, match="has 1 splits and no split 1"):
        datasets.cuhk03(tmp_path, boxes="detected", protocol="classic", split=1)


def test_cuhk03_classic_from_the_official_file(tmp_path: Path) -> None:
    import h5py

    touch(tmp_path, *(f"images_labeled/{name}" for name in NAMES))
    with h5py.File(tmp_path / "cuhk-03.mat", "w") as content:
        testset = content.create_dataset("#refs#/a", data=np.array([[1, 2], [2, 1]]))
        references = content.create_dataset("testsets", (1, 1), h5py.ref_dtype)
        references[0, 0] = testset.ref
    data = datasets.cuhk03(tmp_path, protocol="classic")
    names = [path.rpartition("/")[2] for path in data.query.paths]
    assert names == ["1_002_1_01.png", "1_002_2_06.png", "2_001_1_01.png"]


def test_folder_per_class_leaves_the_query_out(tmp_path: Path) -> None:
    touch(tmp_path, "cat/a.jpg", "cat/b.JPG", "dog/deep/c.png", "dog/notes.txt")
    data = datasets.load(tmp_path, "folder")
    assert data.gallery.labels.tolist() == ["cat", "cat", "dog"]
    assert data.query_rows.tolist() == [0, 1, 2]
    result = data.evaluate(np.array([[0, 1, 2], [1, 2, 0], [2, 1, 0]]))
    assert result.per_query["mAP"][:2].tolist() == [1.0, 0.5]
    assert result.no_match.tolist() == [2]
    assert data.relevance(0).tolist() == [-1, 1, 0]


def test_folder_per_class_with_two_sides(tmp_path: Path) -> None:
    touch(tmp_path, "query/cat/a.jpg", "gallery/cat/b.jpg", "gallery/dog/c.jpg")
    data = datasets.load(tmp_path)
    assert data.query_rows is None
    assert data.gallery.paths == ["gallery/cat/b.jpg", "gallery/dog/c.jpg"]


def test_digits_are_those_of_the_golden_files() -> None:
    data = datasets.load("digits")
    assert len(data.query) == 100
    assert len(data.gallery) == 1697
    np.testing.assert_allclose(np.linalg.norm(data.gallery.features, axis=1), 1, atol=1e-6)


def test_toy_is_the_same_every_time() -> None:
    one, other = datasets.load("toy"), datasets.load("toy")
    np.testing.assert_array_equal(one.query.features, other.query.features)
    assert len(datasets.toy(n_classes=3, per_class=10, n_queries=5).gallery) == 25


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["empty.txt"], "like none of the formats"),
        (["query/0001_c1s1.txt", "bounding_box_test/0001_c1s1.jpg"], "holds no images"),
        (["query/first.jpg", "bounding_box_test/0001_c1s1.jpg"], "must be named IDENTITY_cCAMERA"),
        (["cat/a.txt"], "must hold a folder of images for each class"),
        (["images_labeled/1.png"], "holds neither cuhk03_new_protocol_config_labeled.mat"),
    ],
)
def test_folders_that_are_not_data_sets(tmp_path: Path, names, message) -> None:
    touch(tmp_path, *names)
    with pytest.raises(FileFormatError, match=message):
        datasets.load(tmp_path)


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        datasets.load(tmp_path / "absent")
    with pytest.raises(UnknownNameError, match="market1501"):
        datasets.load(tmp_path, "market1502")
    with pytest.raises(InvalidInputError, match="Options of the format toy do not fit"):
        datasets.load("toy", colour="red")
    touch(tmp_path, "some.txt")
    with pytest.raises(FileFormatError, match="a data set is a folder or a ground truth"):
        datasets.load(tmp_path / "some.txt")
