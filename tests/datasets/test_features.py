"""Vectors beside ground truth, distractors, and stacked rows."""

import json
from pathlib import Path

import numpy as np
import pytest

from kinrank import FileFormatError, InvalidInputError, datasets
from kinrank.datasets.base import StackedRows
from kinrank.datasets.features import save_features

VECTORS = np.eye(4, dtype=np.float32)


def write(folder: Path, **arrays) -> None:
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", np.asarray(values))


def test_identities(tmp_path: Path) -> None:
    write(tmp_path, query=VECTORS[:2], gallery=VECTORS, query_ids=[1, 2], gallery_ids=[1, 1, 2, 0])
    data = datasets.load(tmp_path, name="mine")
    assert (data.name, data.protocol) == ("mine", "reid")
    assert data.query.cams is None
    write(tmp_path, query_cams=[0, 0], gallery_cams=[1, 0, 1, 1])
    assert datasets.load(tmp_path).gallery.cams.tolist() == [1, 0, 1, 1]


def test_identities_as_text(tmp_path: Path) -> None:
    write(tmp_path, query=VECTORS[:2], gallery=VECTORS)
    (tmp_path / "query_ids.txt").write_text("anna\nben\n")
    (tmp_path / "gallery_ids.txt").write_text("anna\nanna\nben\ncarl\n")
    assert datasets.load(tmp_path).gallery.labels.tolist() == ["anna", "anna", "ben", "carl"]
    (tmp_path / "query_ids.txt").write_text("-1\n2\n")
    (tmp_path / "gallery_ids.txt").write_text("1 1 2 0")
    assert datasets.load(tmp_path).query.labels.tolist() == [-1, 2]


def test_ground_truth_lists(tmp_path: Path) -> None:
    write(tmp_path, query=VECTORS[:1], gallery=VECTORS)
    (tmp_path / "gnd.json").write_text(json.dumps([{"easy": [0], "hard": [2], "junk": []}]))
    data = datasets.load(tmp_path)
    assert data.protocol == "revisited"
    assert data.evaluate(np.array([[0, 1, 2, 3]])).mAP["E"] == 1.0


def test_what_does_not_fit(tmp_path: Path) -> None:
    write(tmp_path, query=VECTORS[:2], gallery=VECTORS)
    with pytest.raises(InvalidInputError, match="Ground truth is missing"):
        datasets.load(tmp_path)
    write(tmp_path, query_ids=[1, 2], gallery_ids=[1, 2])
    with pytest.raises(InvalidInputError, match="one of its labels for each of its 4 vectors"):
        datasets.load(tmp_path)
    with pytest.raises(InvalidInputError, match="No file of vectors was given for the query"):
        datasets.from_files(query=None, gallery=tmp_path / "gallery.npy")
    (tmp_path / "query_ids.npy").unlink()
    (tmp_path / "query_ids.txt").write_text("")
    with pytest.raises(FileFormatError, match="is empty"):
        datasets.load(tmp_path)


def test_features_for_images(tmp_path: Path) -> None:
    for name in ("query/0001_c1s1_1_00.jpg", "bounding_box_test/0001_c2s1_1_00.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    write(tmp_path, q=VECTORS[:1], g=VECTORS[1:2])
    files = {"query": tmp_path / "q.npy", "gallery": tmp_path / "g.npy"}
    data = datasets.load(tmp_path, "market1501", **files)
    assert data.gallery.features.shape == (1, 4)
    again = datasets.load(**data.source)
    np.testing.assert_array_equal(again.query.features, data.query.features)
    with pytest.raises(InvalidInputError, match=r"one row per image of the data set \(1\), got 4"):
        data.with_features(VECTORS[:1], VECTORS)
    with pytest.raises(InvalidInputError, match="go together"):
        datasets.load(tmp_path, "market1501", query=tmp_path / "q.npy")


def test_saved_features_are_read_back(tmp_path: Path) -> None:
    for data in (datasets.toy(), revisited_set(), leave_one_out_set()):
        folder = tmp_path / data.name
        save_features(data, folder)
        again = datasets.load(folder)
        assert (again.name, again.protocol) == (data.name, data.protocol)
        np.testing.assert_array_equal(again.gallery.features, np.asarray(data.gallery.features))
        ranking = np.argsort(-(data.query.features @ data.gallery.features.T), axis=1)
        assert again.evaluate(ranking).summary() == data.evaluate(ranking).summary()


def revisited_set() -> datasets.Dataset:
    return datasets.Dataset(
        name="levels",
        protocol="revisited",
        query=datasets.Part(features=VECTORS[:1]),
        gallery=datasets.Part(features=VECTORS),
        gnd=[{"easy": np.array([0]), "hard": [2], "junk": []}],
    )


def leave_one_out_set() -> datasets.Dataset:
    part = datasets.Part(features=VECTORS, labels=np.array([0, 0, 1, 1]))
    return datasets.Dataset(
        name="out", protocol="retrieval", query=part, gallery=part, query_rows=np.arange(4)
    )


@pytest.mark.parametrize("labels", [[1, 1, 2, -1], ["a", "a", "b", "c"]])
def test_distractors_are_wrong_for_everybody(labels) -> None:
    data = datasets.Dataset(
        name="small",
        protocol="reid",
        query=datasets.Part(labels=np.array(labels[:2]), features=VECTORS[:2]),
        gallery=datasets.Part(labels=np.array(labels), features=VECTORS),
    )
    more = data.with_distractors(np.ones((3, 4), np.float32), "1M").with_distractors(VECTORS[:1])
    assert more.name == "small+1M+distractors"
    assert len(more.gallery) == 8
    assert more.gallery.features.shape == (8, 4)
    ranking = np.array([[4, 5, 6, 7, 0, 1, 2, 3]] * 2)
    assert more.evaluate(ranking)["mAP"] == pytest.approx((1 / 5 + 2 / 6) / 2)
    assert (more.relevance(0)[4:] == 0).all()


def test_distractors_of_the_revisited_protocol() -> None:
    data = revisited_set().with_distractors(VECTORS)
    assert data.evaluate(np.array([[7, 0, 2, 1, 3, 4, 5, 6]])).mAP["E"] == 0.25
    with pytest.raises(InvalidInputError, match="no distractors can be added"):
        datasets.Dataset(
            name="n", protocol="reid", query=datasets.Part(), gallery=datasets.Part()
        ).with_distractors(VECTORS)


def test_stacked_rows_are_like_one_array() -> None:
    random = np.random.default_rng(0)
    parts = [random.normal(size=(n, 3)).astype(np.float32) for n in (4, 1, 5)]
    stacked, whole = StackedRows(*parts), np.concatenate(parts)
    assert stacked.shape == whole.shape
    np.testing.assert_array_equal(np.asarray(stacked), whole)
    np.testing.assert_array_equal(stacked[3:7], whole[3:7])
    rows = np.array([9, 0, 4, 4])
    np.testing.assert_array_equal(stacked[rows], whole[rows])
    with pytest.raises(InvalidInputError, match="one number of columns"):
        StackedRows(parts[0], np.zeros((2, 2)))
