"""Wrong shapes, ids that do not fit, rankings over another gallery, missing cameras."""

import numpy as np
import pytest

from kinrank import InvalidInputError, evaluate

RANKING = np.array([[0, 1, 2], [2, 1, 0]])
IDS = [1, 2]
GALLERY = [1, 2, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ranking": np.zeros((2, 3))}, "integer array of shape"),
        ({"ranking": np.array([0, 1])}, "integer array of shape"),
        ({"ranking": np.array([[2**31]])}, "below 2"),
        ({"ranking": RANKING[:1]}, r"one row per query \(2 in the identities\), got 1"),
        ({"ranking": np.array([[0, 1, 3], [0, 1, 2]])}, "got 3 in row 0: it is over another"),
        ({"ranking": np.array([[0, 1, 2], [0, 1, -2]])}, "got -2 in row 1"),
        ({"ranking": np.array([[0, 1, 2], [1, 2, 1]])}, "got 1 twice in row 1"),
        ({"ranking": np.array([[0, 1, 2, 3]] * 2)}, "at most one column per gallery row"),
        ({"query_ids": [[1, 2]]}, "`query_ids` must be a one-dimensional array"),
        ({"gallery_ids": [1.5, 2.0, 1.0]}, "`gallery_ids` must be a one-dimensional array"),
        ({"gallery_ids": []}, "`gallery_ids` must be a one-dimensional array"),
        ({"query_ids": ["a", "b"]}, "both numbers or both names"),
        ({"query_ids": [8, 9]}, "No query has a match: .* share no value"),
        ({"query_cams": [0, 0]}, "got `query_cams` without `gallery_cams`"),
        ({"gallery_cams": [0, 0, 0]}, "got `gallery_cams` without `query_cams`"),
        ({"query_cams": [0], "gallery_cams": [0, 0, 0]}, "`query_cams` must have 2 entries, got 1"),
        ({"query_cams": [0, 0], "gallery_cams": [0, 0, 0]}, "share no value across cameras"),
        ({"ranks": (0,)}, "`ranks` must be an integer of at least 1"),
        ({"ranks": None}, "`ranks` must be an integer of at least 1, got None"),
        ({"ranks": (1, "a")}, "`ranks` must be an integer of at least 1, got 'a'"),
    ],
)
def test_reid(change, message) -> None:
    arguments = {"ranking": RANKING, "query_ids": IDS, "gallery_ids": GALLERY} | change
    with pytest.raises(InvalidInputError, match=message):
        evaluate.reid(**arguments)


GND = [{"easy": [0], "hard": [1], "junk": []}, {"easy": [2], "hard": [], "junk": [1]}]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ranking": RANKING[:1]}, r"one row per query \(2 in the ground truth\)"),
        ({"gnd": []}, "must be a list with one mapping per query"),
        ({"gnd": "easy"}, "must be a list with one mapping per query"),
        ({"gnd": {"imlist": []}}, "must have the key 'gnd'"),
        ({"gnd": [{"easy": [0]}, GND[1]]}, r"`gnd\[0\]` must have the keys"),
        ({"gnd": [GND[0], [1, 2]]}, r"`gnd\[1\]` must have the keys.*got list"),
        ({"gnd": [GND[0], {**GND[1], "easy": [0.5]}]}, r"`gnd\[1\]\['easy'\]` must be a list"),
        ({"gnd": [GND[0], {**GND[1], "easy": [-1]}]}, r"`gnd\[1\]\['easy'\]` must be a list"),
        ({"gnd": [GND[0], {**GND[1], "easy": [1]}]}, r"`gnd\[1\]` must name a gallery row once"),
        ({"gnd": [GND[0], {**GND[1], "easy": [3]}]}, "from 0 to 2, got 3: the ranking is over"),
        ({"n_gallery": 2}, "from 0 to 1, got 2"),
        ({"n_gallery": 0}, "`n_gallery` must be an integer of at least 1"),
        ({"depths": (0,)}, "`depths` must be"),
        ({"depths": (2**80,)}, "`depths` must be"),
    ],
)
def test_revisited(change, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        evaluate.revisited(**({"ranking": RANKING, "gnd": GND} | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "`k` must be an integer of at least 1"),
        ({"k": [1, 2**80]}, "`k` must be an integer between 1 and 2147483647"),
        ({"query_rows": [0]}, "`query_rows` must be 2 whole numbers"),
        ({"query_rows": [0, 3]}, "`query_rows` must be between -1 and 2, got 0 to 3"),
        ({"query_labels": [8, 9]}, "share no value"),
    ],
)
def test_retrieval(change, message) -> None:
    arguments = {"ranking": RANKING, "query_labels": IDS, "gallery_labels": GALLERY} | change
    with pytest.raises(InvalidInputError, match=message):
        evaluate.retrieval(**arguments)


@pytest.mark.parametrize(
    ("ranking", "row", "n"), [([[2**31 - 1]], 0, None), ([[1]], 2**30, None), ([[0]], 0, 10**9)]
)
def test_galleries_beyond_memory(ranking, row, n):
    gnd = [{"easy": [row], "hard": [], "junk": []}]
    with pytest.raises(InvalidInputError, match="of at most 67,108,864 gallery rows, got"):
        evaluate.revisited(np.array(ranking), gnd, n_gallery=n)
