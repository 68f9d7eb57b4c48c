"""Relevance judgements: figures by hand and by trec_eval, files, data sets and the command."""

import json
import math

import numpy as np
import pytest

import kinrank
from cli_helpers import run
from kinrank import FileFormatError, InvalidInputError, Ranking, datasets
from kinrank.evaluate import judged, read_qrels

QRELS = {"q1": {"a": 3, "b": 0, "c": 1, "far": 2}, "q2": {"d": 1}, "q3": {"a": 0}}
NAMES = ["a", "b", "c", "d"]
LISTS = np.array([[1, 2, 0, 3], [3, 0, 1, 2], [0, 1, 2, 3]])
QUERIES = ["q1", "q2", "q3"]


def test_by_hand():
    result = judged(LISTS, QRELS, QUERIES, NAMES, k=(1, 3))
    # q1: c is second and a third; "far" is relevant, but no document of the gallery.
    np.testing.assert_allclose(result.ap, [(1 / 2 + 2 / 3) / 3, 1, np.nan])
    gain = 1 / math.log2(3) + 3 / math.log2(4)
    ideal = 3 + 2 / math.log2(3) + 1 / math.log2(4)
    np.testing.assert_allclose(result.per_query["nDCG@3"], [gain / ideal, 1, np.nan])
    np.testing.assert_allclose(result.per_query["nDCG@1"], [0, 1, np.nan])
    np.testing.assert_allclose(result.per_query["MRR"], [1 / 2, 1, np.nan])
    assert result.recall == {1: 0.5, 3: pytest.approx((2 / 3 + 1) / 2)}
    assert result.precision == {1: 0.5, 3: pytest.approx((2 / 3 + 1 / 3) / 2)}
    assert result.hit == {1: 0.5, 3: 1.0}
    assert result.no_match.tolist() == [2]
    assert result.missing == 1


def test_a_grade_from_which_a_document_is_relevant():
    result = judged(LISTS, QRELS, QUERIES, NAMES, k=3, least=2)
    np.testing.assert_allclose(result.ap, [(1 / 3) / 2, np.nan, np.nan])
    both = judged(LISTS, QRELS, QUERIES, NAMES, k=3)
    np.testing.assert_array_equal(result.per_query["nDCG@3"], both.per_query["nDCG@3"])


def test_names_are_the_ids_of_a_ranking_or_numbers():
    named = Ranking(LISTS, np.zeros(LISTS.shape), np.array(NAMES)[LISTS])
    expected = judged(LISTS, QRELS, QUERIES, NAMES)
    assert judged(named, QRELS, QUERIES).summary() == expected.summary()
    assert judged(LISTS, {"1": {"3": 1}}).mAP == 1.0
    holes = np.array([[-1, 1, 2, 0]])
    assert judged(holes, QRELS, ["q1"], NAMES).ap == expected.ap[:1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"queries": ["q1"]}, "`queries` must be one name for each query of the ranking"),
        ({"queries": ["x", "y", "z"]}, "No query of the ranking has a relevant document"),
        ({"gallery": ["a", "a", "b", "c"]}, "`gallery` must name each document once, got 'a'"),
        ({"gallery": ["a"]}, "over another gallery"),
        ({"qrels": {}}, "at least one query"),
        ({"qrels": {"q1": ["a"]}}, "must be a dict of queries to dicts"),
        ({"qrels": {"q1": {"a": 0.5}}}, "must be an integer"),
        ({"least": 0}, "`least` must"),
        ({"k": 0}, "`k` must"),
    ],
)
def test_arguments_that_are_refused(arguments, message):
    given = {"qrels": QRELS, "queries": QUERIES, "gallery": NAMES} | arguments
    with pytest.raises(InvalidInputError, match=message):
        judged(LISTS, **given)


def test_a_ranking_of_no_query_is_refused():
    with pytest.raises(InvalidInputError, match="at least one query"):
        judged(LISTS[:0], QRELS, [], NAMES)


def test_files_of_judgements(tmp_path):
    file = tmp_path / "qrels.txt"
    file.write_text("q1 0 a 2\nq1\t0\tb\t-1\n\nq2 Q0 a 0\n", encoding="utf-8")
    assert read_qrels(file) == {"q1": {"a": 2, "b": -1}, "q2": {"a": 0}}
    file.write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\n", encoding="utf-8")
    assert read_qrels(file) == {"q1": {"a": 1}}
    assert judged(LISTS[:1], file, ["q1"], NAMES).mAP == pytest.approx(1 / 3)
    for text, message in (
        ("", "no judgement"),
        ("q1 0 a", "no judgement"),
        ("q1 0 a 1\nq1 0 a", "3 words in line 2"),
        ("q1 0 a 1\nq1 0 a 0", "two judgements of a for q1, in line 2"),
        ("q1 0 a one", "one"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(FileFormatError, match=message):
            read_qrels(file)


def test_runs_there_and_back(tmp_path):
    file = tmp_path / "run.trec"
    distances = np.array([[0.1, 0.25, 0.25, 0.5], [-1, 0, 2e-8, 3], [1, 2, 3, np.inf]])
    lists = LISTS.copy()
    lists[2, 3] = -1
    ranking = Ranking(lists, distances)
    named = Ranking(lists, distances, np.where(lists < 0, "", np.array(NAMES)[lists]))
    named.to_trec(file, QUERIES)
    back = Ranking.from_trec(file, QUERIES, NAMES)
    assert back.ids.tolist() == named.ids.tolist()
    assert back.indices.tolist() == lists.tolist()
    assert back.distances.tobytes() == named.distances.tobytes()
    more = Ranking.from_trec(file, ["new", *QUERIES], NAMES)
    assert (more.indices[0] == -1).all()
    ranking.to_trec(file)
    assert Ranking.from_trec(file).indices.tolist() == lists.tolist()
    file.write_text("1 Q0 7 1 0.5 x\n1 Q0 8 2 1.5 x\n", encoding="utf-8")
    assert Ranking.from_trec(file).indices.tolist() == [[-1, -1], [8, 7]]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("q1 Q0 a 1 0.5", FileFormatError, "5 words in line 1"),
        ("q1 Q0 a 1 nan x", FileFormatError, "the score nan in line 1"),
        ("q1 Q0 a 1 1 x\nq1 Q0 a 2 0 x", FileFormatError, "a twice for q1, in line 2"),
        ("q9 Q0 a 1 1 x", InvalidInputError, "`queries` must be all names of the run file"),
        ("q1 Q0 z 1 1 x", InvalidInputError, "`gallery` must be all names of the run file"),
    ],
)
def test_runs_that_are_refused(text, error, message, tmp_path):
    file = tmp_path / "run.trec"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(error, match=message):
        Ranking.from_trec(file, QUERIES, NAMES)
    with pytest.raises((InvalidInputError, FileFormatError)):
        Ranking.from_trec(file)


@pytest.fixture
def judged_folder(tmp_path):
    """A folder of a data set with judgements."""
    random = np.random.default_rng(0)
    np.save(tmp_path / "gallery.npy", random.normal(size=(40, 6)))
    np.save(tmp_path / "query.npy", random.normal(size=(5, 6)))
    (tmp_path / "gallery_ids.txt").write_text(" ".join(f"d{row}" for row in range(40)))
    (tmp_path / "query_ids.txt").write_text(" ".join(f"q{row}" for row in range(5)))
    lines = [f"q{row // 6} 0 d{row} {row % 3}" for row in range(30)]
    (tmp_path / "qrels.txt").write_text("\n".join(lines))
    return tmp_path


def test_a_data_set(judged_folder, tmp_path):
    data = datasets.load(judged_folder)
    assert data.protocol == "judged"
    ranking = kinrank.rerank(data.query.features, data.gallery.features, "aqe")
    expected = judged(ranking, judged_folder / "qrels.txt", data.query.labels, data.gallery.labels)
    assert data.evaluate(ranking).summary() == expected.summary()
    assert set(data.headlines) <= set(data.metrics)
    assert np.flatnonzero(data.relevance(1)).tolist() == [7, 8, 10, 11]
    datasets.features.save_features(data, tmp_path / "again")
    again = datasets.load(tmp_path / "again")
    assert again.qrels == data.qrels
    assert again.evaluate(ranking).summary() == expected.summary()
    table = kinrank.evaluate.compare("none,aqe", [data], isolate=False, work=tmp_path / "work")
    assert "nDCG@10" in list(table.to_pandas())
    more = data.with_distractors(np.ones((3, 6)))
    assert more.evaluate(ranking).summary() == expected.summary()


def test_the_commands(judged_folder, tmp_path):
    def path(name):
        return str(judged_folder / name)

    vectors = ["--query", path("query.npy"), "--gallery", path("gallery.npy")]
    names = ["--query-ids", path("query_ids.txt"), "--gallery-ids", path("gallery_ids.txt")]
    truth = ["--qrels", path("qrels.txt")]
    result = run("eval", *vectors, *names, *truth, "--method", "none", "--json")
    assert result.exit_code == 0, result.output
    metrics = json.loads(result.stdout)["metrics"]
    data = datasets.load(judged_folder)
    plain = kinrank.evaluate.Plain().rerank(data.query.features, data.gallery.features)
    assert metrics == data.evaluate(plain).summary()
    Ranking(plain.indices, plain.distances, data.gallery.labels[plain.indices]).to_trec(
        tmp_path / "run", data.query.labels
    )
    again = run("eval", "--data", str(judged_folder), "--ranking", str(tmp_path / "run"), "--json")
    assert json.loads(again.stdout)["metrics"] == metrics
    out = str(tmp_path / "numbers.trec")
    assert run("rerank", *vectors, "-k", "5", "--out", out).exit_code == 0
    assert Ranking.from_trec(out).k == 5
    for wrong in (["--gnd", path("qrels.txt")], []):
        refused = run("eval", *vectors, *(truth if wrong else []), *wrong, "--method", "none")
        assert refused.exit_code != 0


@pytest.mark.external
def test_the_figures_are_those_of_trec_eval(tmp_path):
    import pytrec_eval

    random = np.random.default_rng(4)
    n_queries, n_gallery = 40, 120
    names = [f"d{row}" for row in range(n_gallery)]
    queries = [f"q{row}" for row in range(n_queries)]
    distances = np.sort(random.random((n_queries, 60)), axis=1)
    lists = np.stack([random.permutation(n_gallery)[:60] for _ in queries])
    Ranking(lists, distances, np.array(names)[lists]).to_trec(tmp_path / "run.trec", queries)
    qrels = {
        query: {
            f"d{row}": int(random.integers(-1, 4)) for row in random.permutation(n_gallery + 5)[:30]
        }
        for query in queries
    }
    with (tmp_path / "run.trec").open() as file:
        scores = pytrec_eval.parse_run(file)
    words = {"map", "recip_rank", "ndcg_cut.5,10,100", "P.5,10,100", "recall.5,10,100"}
    words |= {"success.5,10,100"}
    ours_of = {"map": "mAP", "recip_rank": "MRR"}
    for depth in (5, 10, 100):
        ours_of |= {f"ndcg_cut_{depth}": f"nDCG@{depth}", f"P_{depth}": f"precision@{depth}"}
        ours_of |= {f"recall_{depth}": f"recall@{depth}", f"success_{depth}": f"hit@{depth}"}
    ranking = Ranking.from_trec(tmp_path / "run.trec", queries, names)
    for least in (1, 2):
        theirs = pytrec_eval.RelevanceEvaluator(qrels, words, relevance_level=least).evaluate(
            scores
        )
        result = judged(ranking, qrels, queries, names, k=(5, 10, 100), least=least)
        for their_name, our_name in ours_of.items():
            expected = [theirs[query][their_name] for query in queries]
            np.testing.assert_allclose(result.per_query[our_name], expected, atol=1e-12)
