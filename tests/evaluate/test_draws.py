"""Single-shot galleries, against every gallery there is."""

import itertools

import numpy as np
import pytest

from kinrank import InvalidInputError, evaluate

IDS = [0, 0, 1, 1, 1]


def test_mean_over_all_galleries() -> None:
    # One query of identity 0 seen by camera 0; the gallery is of camera 1.
    ranking = np.array([[2, 0, 3, 1, 4]])
    places = {index: place for place, index in enumerate(ranking[0])}
    ranks = [1 + (places[b] < places[a]) for a, b in itertools.product((0, 1), (2, 3, 4))]
    result = evaluate.single_shot(ranking, [0], IDS, [0], [1] * 5, repeats=4000)
    assert result.cmc[1] == pytest.approx(np.mean([rank == 1 for rank in ranks]), abs=0.03)
    assert result.mAP == pytest.approx(np.mean([1 / rank for rank in ranks]), abs=0.03)
    assert result.cmc[5] == 1.0


def test_own_camera_is_left_out_and_the_seed_fixes_the_draws() -> None:
    ranking = np.array([[0, 2, 1, 3, 4], [2, 0, 3, 4, 1]])
    cameras = [0, 1, 0, 1, 1]
    first, again = (
        evaluate.single_shot(ranking, [0, 1], IDS, [0, 0], cameras, seed=3) for _ in range(2)
    )
    assert first.summary() == again.summary()
    # For query 0 only row 1 is right and row 0 is not looked at; rows 3 and 4 come after it.
    assert first.per_query["R1"].tolist() == [1.0, 1.0]


def test_what_is_not_listed_is_not_found() -> None:
    result = evaluate.single_shot(np.array([[2, -1]]), [0], IDS, [0], [1] * 5)
    assert result.cmc == {1: 0.0, 5: 0.0, 10: 0.0, 20: 0.0}


def test_errors() -> None:
    ranking = np.array([[0, 1, 2, 3, 4]])
    with pytest.raises(InvalidInputError, match="Single shot needs cameras"):
        evaluate.single_shot(ranking, [0], IDS, None, None)
    with pytest.raises(InvalidInputError, match="across cameras"):
        evaluate.single_shot(ranking, [0], IDS, [1], [1] * 5)
    for change in ({"repeats": 10**9}, {"ranks": ("a",)}, {"ranks": (2**80,)}, {"seed": "a"}):
        with pytest.raises(InvalidInputError, match=f"`{next(iter(change))}` must be an integer"):
            evaluate.single_shot(ranking, [0], IDS, [0], [1] * 5, **change)
