"""Metrics against numbers worked out with pencil and paper."""

import numpy as np
import pytest

from kinrank import Ranking, evaluate


def test_reid_plain() -> None:
    # Right at ranks 1, 3 and 6 of 6: AP = (1/1 + 2/3 + 3/6) / 3, INP = 3 / 6.
    result = evaluate.reid(np.array([[0, 3, 1, 4, 5, 2]]), [7], [7, 7, 7, 1, 2, 3])
    assert result.mAP == pytest.approx((1 + 2 / 3 + 1 / 2) / 3)
    assert result.mINP == pytest.approx(0.5)
    assert result.cmc == {1: 1.0, 5: 1.0, 10: 1.0, 20: 1.0}
    assert result.missing == 0
    assert len(result.no_match) == 0


def test_reid_takes_out_own_camera_and_junk() -> None:
    # Row 0 is of the query's camera and row 3 is junk; what is left is wrong, right, wrong, right.
    ids, cams = [7, 7, 7, -1, 0, 2], [1, 2, 3, 2, 2, 3]
    result = evaluate.reid(np.array([[0, 3, 4, 1, 5, 2]]), [7], ids, [1], cams)
    assert result.mAP == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert result.mINP == pytest.approx(2 / 4)
    assert result.cmc[1] == 0.0
    assert result.cmc[5] == 1.0


def test_reid_junk_can_be_switched_off() -> None:
    ranking = np.array([[0, 1]])
    assert evaluate.reid(ranking, [7], [-1, 7]).mAP == 1.0
    assert evaluate.reid(ranking, [7], [-1, 7], junk=None).mAP == 0.5


def test_reid_names_queries_without_a_match() -> None:
    # Query 1 has no identity in common, query 2 only its own camera.
    ranking = np.array([[0, 1], [0, 1], [1, 0]])
    result = evaluate.reid(ranking, [5, 9, 6], [5, 6], [0, 0, 0], [1, 0])
    assert result.no_match.tolist() == [1, 2]
    assert result.mAP == 1.0
    assert np.isnan(result.ap[1:]).all()
    assert "2 without a match, not counted: 1, 2" in str(result)


def test_cut_ranking_counts_what_it_does_not_list_as_not_found() -> None:
    ids = [7, 7, 7, 1, 2, 3]
    result = evaluate.reid(np.array([[0, 3, 1]]), [7], ids)
    assert result.mAP == pytest.approx((1 + 2 / 3) / 3)
    assert result.mINP == 0.0
    assert result.missing == 1


def test_none_entries_are_skipped() -> None:
    whole = evaluate.reid(np.array([[3, 0, 1, -1, -1]]), [7], [7, 7, 1, 2, 3])
    assert whole.mAP == pytest.approx((1 / 2 + 2 / 3) / 2)
    empty = evaluate.reid(np.array([[-1, -1]]), [7], [7, 1])
    assert empty.mAP == 0.0
    assert empty.missing == 1


def test_names_as_identities() -> None:
    result = evaluate.reid(
        np.array([[1, 0]]), ["anna"], ["anna", "ben"], ["left"], ["right", "left"]
    )
    assert result.mAP == 0.5


GND = [{"easy": [0, 1], "hard": [2], "junk": [3], "bbx": [0, 0, 1, 1]}]


def test_revisited_levels() -> None:
    # Order: hard, junk, easy, wrong, easy, wrong.
    result = evaluate.revisited(np.array([[2, 3, 0, 4, 1, 5]]), GND)
    # Easy: 2 and 3 are out, so right, wrong, right: (1 + 1)/2 and (1/2 + 2/3)/2.
    assert result.easy.mAP == pytest.approx((1 + 7 / 12) / 2)
    # Medium: right, right, wrong, right: 1, 1, (2/3 + 3/4)/2.
    assert result.medium.mAP == pytest.approx((1 + 1 + 17 / 24) / 3)
    # Hard: 0, 1 and 3 are out, and the first is right.
    assert result.hard.mAP == 1.0
    assert result.mAP == {"E": result.easy.mAP, "M": result.medium.mAP, "H": 1.0}


def test_revisited_precision_stops_at_the_last_right_answer() -> None:
    result = evaluate.revisited(np.array([[2, 3, 0, 4, 1, 5]]), GND)
    assert result.easy.mP == {1: 1.0, 5: pytest.approx(2 / 3), 10: pytest.approx(2 / 3)}
    assert result.medium.mP == {1: 1.0, 5: 0.75, 10: 0.75}
    assert result.hard.mP == {1: 1.0, 5: 1.0, 10: 1.0}


def test_revisited_cut_ranking_keeps_the_full_depth() -> None:
    result = evaluate.revisited(np.array([[2, 3, 0]]), GND, n_gallery=6)
    assert result.easy.mP[5] == pytest.approx(1 / 5)
    assert result.easy.missing == 1


def test_revisited_query_that_counts_in_one_level_only() -> None:
    gnd = [*GND, {"easy": [], "hard": [1], "junk": []}]
    ranking = np.array([[2, 3, 0, 4, 1, 5], [0, 1, 2, 3, 4, 5]])
    result = evaluate.revisited(ranking, gnd)
    assert result.easy.no_match.tolist() == [1]
    assert result.hard.no_match.tolist() == []
    # First position 1: (0/1 + 1/2) / 2.
    assert result.hard.ap.tolist() == [1.0, 0.25]
    assert result.no_match.tolist() == []


def test_revisited_takes_the_whole_official_content() -> None:
    ranking = np.array([[2, 3, 0, 4, 1, 5]])
    whole = evaluate.revisited(ranking, {"gnd": GND, "imlist": [], "qimlist": []})
    assert whole.mAP == evaluate.revisited(ranking, GND).mAP


def test_retrieval_by_depth() -> None:
    # Right at ranks 2 and 4 of 5.
    result = evaluate.retrieval(np.array([[0, 1, 2, 3, 4]]), [1], [0, 1, 0, 1, 0], k=(1, 2, 4))
    assert result.mAP == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert result.mAP_at == {1: 0.0, 2: 0.25, 4: 0.5}
    assert result.recall == {1: 0.0, 2: 0.5, 4: 1.0}
    assert result.precision == {1: 0.0, 2: 0.5, 4: 0.5}
    assert result.hit == {1: 0.0, 2: 1.0, 4: 1.0}
    ideal = 1 + 1 / np.log2(3)
    assert result.nDCG[4] == pytest.approx((1 / np.log2(3) + 1 / np.log2(5)) / ideal)


def test_retrieval_leaves_the_query_out() -> None:
    # The query is row 0: what is left is wrong, right.
    result = evaluate.retrieval(np.array([[0, 1, 2]]), ["a"], ["a", "b", "a"], k=1, query_rows=[0])
    assert result.mAP == 0.5
    assert result.recall == {1: 0.0}


def test_fewer_results_than_k() -> None:
    result = evaluate.retrieval(np.array([[1]]), [1], [0, 1, 0, 1], k=4)
    assert result.precision == {4: 0.25}
    assert result.recall == {4: 0.5}
    assert result.missing == 1


def test_ties_are_the_business_of_the_ranking() -> None:
    # Equal distances: the order of the ranking stands, whatever the distances say.
    indices = np.array([[1, 0, 2]], np.int32)
    tied = Ranking(indices, np.zeros((1, 3), np.float32))
    assert evaluate.reid(tied, [7], [7, 1, 7]).mAP == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_printing_is_in_per_cent() -> None:
    assert "mAP           50.00" in str(evaluate.reid(np.array([[0, 1]]), [7], [1, 7]))


def test_summary_is_the_mean_of_the_queries() -> None:
    result = evaluate.reid(np.array([[0, 1], [0, 1]]), [7, 1], [1, 7])
    assert result.summary()["mAP"] == result.ap.mean() == 0.75
    assert list(result.summary()) == ["mAP", "R1", "R5", "R10", "R20", "mINP"]
