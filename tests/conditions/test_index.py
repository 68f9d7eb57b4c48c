"""Filters of an index: online, over a store, by attributes, kept in the file."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import kinrank
from kinrank import CAS, InvalidInputError
from kinrank.errors import UnknownIdError, UnknownNameError
from kinrank.index.index import Index
from row_store import RowStore
from struck import assert_struck, rows, struck

NQ, NG = 7, 400
METHOD = CAS(k1=8, k2=4)
IDS = np.array([f"row {number}" for number in range(NG)])


@pytest.fixture(scope="module")
def sets():
    return rows(NQ, 5), rows(NG, 6)


@pytest.fixture(scope="module")
def index(sets):
    cameras, species = np.arange(NG) % 3, np.array(["lynx", "fox", "owl", "elk"])[np.arange(NG) % 4]
    attributes = {"camera": cameras, "species": species}
    return METHOD.fit(sets[1], IDS, attributes=attributes)


def masks(seed=0):
    rng = np.random.default_rng(seed)
    for share in (0.98, 0.6, 0.1, 0.01, 0.0):
        yield rng.random(NG) < share
        yield rng.random((NQ, NG)) < share


def test_online_answers_are_struck_out(sets, index):
    whole = index.search(sets[0], None)
    for mask in masks():
        for k in (5, NG):
            assert_struck(index.search(sets[0], k, allowed=mask), whole, mask, k)
            assert_struck(index.search(sets[0], k, exclude=mask), whole, ~mask, k)
    few = np.random.default_rng(2).random((NQ, NG)) < 0.01
    assert_struck(index.search(sets[0], 5, exclude=csr_array(few)), whole, ~few, 5)


def test_one_query_and_many_have_the_same_bits(sets, index):
    mask = np.random.default_rng(3).random((NQ, NG)) < 0.3
    together = index.search(sets[0], 5, allowed=mask)
    for query in range(NQ):
        alone = index.search(sets[0][query], 5, allowed=mask[query])
        assert alone.indices.tobytes() == together.indices[query].tobytes()
        assert alone.distances.tobytes() == together.distances[query].tobytes()


@pytest.mark.parametrize(
    "options",
    [{"omega": 0.0}, {"fusion": "euclidean"}, {"divergence": "jaccard"}, {"metric": "cosine"}],
)
def test_options(sets, options):
    fitted = CAS(k1=8, k2=4, **options).fit(sets[1])
    whole = fitted.search(sets[0], None)
    for mask in masks(5):
        assert_struck(fitted.search(sets[0], 6, allowed=mask), whole, mask, 6)


def test_context_is_never_an_answer(sets):
    fitted = METHOD.fit(sets[1], context=rows(60, 9))
    whole = fitted.search(sets[0], None)
    for mask in masks(6):
        assert_struck(fitted.search(sets[0], 6, allowed=mask), whole, mask, 6)


def test_plain_distances(sets, index):
    whole = index.search(sets[0], None, base=True)
    for mask in masks(1):
        assert_struck(index.search(sets[0], 5, base=True, allowed=mask), whole, mask, 5)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_ties(data):
    n = data.draw(st.integers(3, 40))
    number = st.integers(0, 2)
    points = data.draw(st.lists(st.tuples(number, number), min_size=n + 2, max_size=n + 2))
    points = np.array(points, np.float32)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=2 * n, max_size=2 * n)))
    mask, k = mask.reshape(2, n), data.draw(st.integers(1, n))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kinrank.KinrankWarning)
        fitted = CAS(k1=3, k2=2).fit(points[2:])
    whole = fitted.search(points[:2], None)
    assert_struck(fitted.search(points[:2], k, allowed=mask), whole, mask, k)


def test_ids_and_masks_say_the_same(sets, index):
    mask = np.random.default_rng(1).random(NG) < 0.2
    expected = index.search(sets[0], 5, allowed=mask)
    wide = [IDS[mask].tolist()] * NQ
    for form in (IDS[mask], IDS[mask].tolist(), set(IDS[mask].tolist()), wide):
        got = index.search(sets[0], 5, allowed=form)
        np.testing.assert_array_equal(got.ids, expected.ids)
    single = index.search(sets[0][0], 5, allowed=["row 3", "row 7"])
    assert sorted(single.ids[0, :2]) == ["row 3", "row 7"]
    assert single.ids[0, 2:].tolist() == [""] * 3


def test_attributes(sets, index):
    whole, queries = index.search(sets[0], None), sets[0]
    species, cameras = index.attributes["species"], index.attributes["camera"]
    got = index.search(queries, 5, where={"species": "lynx"})
    assert_struck(got, whole, species == "lynx", 5)
    got = index.search(queries, 5, where={"species": ["lynx", "owl"], "camera": 1})
    assert_struck(got, whole, np.isin(species, ["lynx", "owl"]) & (cameras == 1), 5)
    own = np.array([0, 1, 2, 0, 1, 2, 9])  # nobody has camera 9
    got = index.search(queries, 5, differ={"camera": own})
    assert_struck(got, whole, cameras != own[:, None], 5)
    got = index.search(queries[0], 5, differ={"camera": 0}, exclude=["row 1"])
    assert_struck(got, index.search(queries[0], None), (cameras != 0) & (IDS != "row 1"), 5)
    assert (index.search(queries, 5, where={"species": "wolf"}).indices == -1).all()
    assert (index.search(queries, 5, where={"species": []}).indices == -1).all()
    assert index.info()["attributes"] == ["camera", "species"]


def test_attributes_are_kept_and_changed(sets, tmp_path):
    queries, gallery = sets
    numbers = np.arange(NG)
    fitted = METHOD.fit(gallery, attributes={"camera": numbers % 3, "night": numbers % 2 == 0})
    fitted.save(tmp_path / "a.index")
    with kinrank.open(tmp_path / "a.index", writable=True) as opened:
        assert opened.attributes["night"].dtype == bool
        np.testing.assert_array_equal(opened.attributes["camera"], numbers % 3)
        opened.add(rows(4, 20), attributes={"camera": [7, 7, 8, 8], "night": [True] * 4})
        opened.remove([0, 5])
        opened.update([10, 11], rows(2, 21), attributes={"camera": [5, 5]})
        at = {id_: place for place, id_ in enumerate(opened.ids.tolist())}
        cameras, night = opened.attributes["camera"], opened.attributes["night"]
        assert cameras[[at[400], at[403], at[10], at[11], at[12]]].tolist() == [7, 8, 5, 5, 0]
        assert night[[at[10], at[11], at[400]]].tolist() == [True, False, True]
        opened.save()
        whole = opened.search(queries, None)
        assert_struck(opened.search(queries, 3, where={"camera": [7, 5]}), whole,
                      np.isin(cameras, [5, 7]), 3)  # fmt: skip
    again = kinrank.open(tmp_path / "a.index")
    np.testing.assert_array_equal(again.attributes["camera"], cameras)


@pytest.mark.parametrize("refine", [True, False])
def test_a_store_answers_as_vectors_do(sets, refine):
    queries, gallery = sets
    order = np.argsort(IDS)
    ids, vectors = IDS[order], gallery[order]
    lists = METHOD.fit(vectors, ids).engine.state.neighbors
    own = METHOD.fit(vectors, ids)
    state = own.engine.state
    indices = state.order[lists.indices][state.position]
    store = RowStore(vectors, ids)
    over = Index.from_neighbors(
        METHOD, lists.distances[state.position], indices, ids=ids, store=store, refine=refine,
        squared=True, farthest=lists.farthest[state.position],
    )  # fmt: skip
    whole = over.search(queries, None)
    for mask in masks(8):
        got = over.search(queries, 5, allowed=mask)
        if refine:
            np.testing.assert_array_equal(got.ids, own.search(queries, 5, allowed=mask).ids)
            indices, distances = struck(whole, mask, 5)
            np.testing.assert_array_equal(got.indices, indices)
            # A store rounds its distances in its own way.
            np.testing.assert_allclose(got.distances, distances, rtol=1e-6)
        known = (got.indices >= 0).sum(axis=1)
        wanted = np.minimum(np.broadcast_to(mask, (NQ, NG)).sum(axis=1), 5)
        np.testing.assert_array_equal(known, wanted)


def test_an_approximate_search_finds_what_is_allowed(sets):
    fitted = METHOD.fit(
        np.concatenate([rows(21_000, 3), sets[1]]), run=kinrank.Run(search="approximate")
    )
    mask = np.zeros(len(fitted), bool)
    mask[[5, 17, 21_050]] = True
    got = fitted.search(sets[0], 5, allowed=mask)
    assert (np.sort(got.indices[:, :3], axis=1) == [5, 17, 21_050]).all()
    assert (got.indices[:, 3:] == -1).all()


def test_pools(sets):
    queries, gallery = sets
    mask = np.random.default_rng(1).random(NG) < 0.3
    whole = kinrank.rerank_pool(queries[0], gallery, METHOD, ids=IDS)
    for form in (mask, IDS[mask], IDS[mask].tolist()):
        got = kinrank.rerank_pool(queries[0], gallery, METHOD, 5, ids=IDS, allowed=form)
        assert_struck(got, whole, mask, 5)
        assert got.ids[0].tolist() == IDS[got.indices[0]].tolist()
    pools, given = [gallery[:50], gallery[50:90]], [[0, 1, 2], [5]]
    got = kinrank.rerank_pool(queries[:2], pools, METHOD, 4, allowed=given)
    assert sorted(got.indices[0]) == [-1, 0, 1, 2]
    assert got.indices[1].tolist() == [5, -1, -1, -1]
    with pytest.raises(InvalidInputError, match="for each of the 2 queries, got 1"):
        kinrank.rerank_pool(queries[:2], pools, METHOD, 4, exclude=[[1]])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"where": {"colour": 1}}, UnknownNameError, "colour"),
        ({"where": "lynx"}, InvalidInputError, "`where` must be a dict"),
        ({"where": {"camera": "3"}}, InvalidInputError, "must be integers, as the attribute"),
        ({"where": {"species": ["lynx", 3]}}, InvalidInputError, "several kinds"),
        ({"differ": {"camera": [1]}}, InvalidInputError, r"one value per query \(7\), got 1"),
        ({"allowed": ["nobody"]}, UnknownIdError, "nobody"),
        ({"allowed": [3]}, UnknownIdError, "3"),
        ({"allowed": np.ones(3, bool)}, InvalidInputError, r"shape \(400,\)"),
    ],
)
def test_bad_conditions(sets, index, given, error, message):
    with pytest.raises(error, match=message):
        index.search(sets[0], 5, **given)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ([1, 2], "a dict of names"),
        ({"camera": [1, 2]}, r"one value per row \(400\), got 2"),
        ({"camera": [1, "2"] * 200}, "several kinds"),
        ({"camera": [True, 2] * 200}, "several kinds"),
        ({"camera": [None] * NG}, r"got \[None, None"),
        ({"camera": [np.nan] * NG}, "finite"),
        ({3: [1] * NG}, "a dict of names"),
    ],
)
def test_bad_attributes(sets, attributes, message):
    with pytest.raises(InvalidInputError, match=message):
        METHOD.fit(sets[1], attributes=attributes)


def test_changes_need_the_attributes(sets):
    fitted = METHOD.fit(sets[1], attributes={"camera": np.arange(NG)})
    with pytest.raises(InvalidInputError, match="must have 'camera' for rows that are added"):
        fitted.add(rows(2, 3))
    with pytest.raises(UnknownNameError, match="colour"):
        fitted.update([4], rows(1, 3), attributes={"colour": ["red"]})
    with pytest.raises(InvalidInputError, match="must be integers, as in the index, got text"):
        fitted.update([4], rows(1, 3), attributes={"camera": ["red"]})
    assert len(fitted) == NG


def test_paths_lead_through_rows_that_are_not_allowed(sets):
    fitted = CAS(k1=8, k2=4, geodesic=True, geodesic_k=20).fit(sets[1])
    whole = fitted.search(sets[0], None)
    for mask in masks(9):
        assert_struck(fitted.search(sets[0], 5, allowed=mask), whole, mask, 5)


def test_a_store_answers_to_marks(sets):
    gallery = sets[1]
    own = METHOD.fit(gallery)
    state = own.engine.state
    lists = state.neighbors
    numbers = np.arange(NG)
    over = Index.from_neighbors(
        METHOD,
        lists.distances[state.position],
        state.order[lists.indices][state.position],
        ids=numbers,
        store=RowStore(gallery, numbers),
        squared=True,
        farthest=lists.farthest[state.position],
    )
    got = over.search(sets[0][0], 5, right=[4, 8], wrong=[2])
    np.testing.assert_array_equal(got.ids, own.search(sets[0][0], 5, right=[4, 8], wrong=[2]).ids)
