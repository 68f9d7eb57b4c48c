"""Lists that are made better by the lists of those in them."""

import numpy as np
import pytest

from kinrank.kernels.cells import list_places, refine_lists, reverse_lists
from kinrank.parallel import Runner
from kinrank.search import cells
from kinrank.search.cells import CellSearch
from kinrank.search.exact import exact_neighbors

N, K, WIDTH = 300, 8, 3
NOWHERE = np.full((N, 1), -1, np.int32)


@pytest.fixture
def start():
    """Rows in some order, and lists that hold some of their nearest."""
    random = np.random.default_rng(5)
    vectors = random.normal(size=(N, 6)).astype(np.float32)
    numbers = random.permutation(N).astype(np.int32)  # of the rows in the order of cells
    places = np.argsort(numbers).astype(np.int32)
    exact = exact_neighbors(vectors, 30, Runner(1))
    lists, values = np.full((N, K), -1, np.int32), np.full((N, K), np.inf, np.float32)
    for row in range(N):
        some = np.sort(random.choice(np.arange(1, 30), random.integers(2, K), replace=False))
        held = np.concatenate([[0], some])
        lists[row, : len(held)] = numbers[exact.indices[row, held]]
        values[row, : len(held)] = exact.distances[row, held]
    return vectors, places, lists, values


def places_in(lists, places):
    """The places of those in lists."""
    near = np.empty_like(lists)
    for low in (0, 200):
        list_places(low, min(N, low + 200), places, lists, near)
    np.testing.assert_array_equal(near, np.where(lists >= 0, places[lists], -1))
    return near


def reverse_of(places, lists, fresh):
    """Who lists a row that does not list them, best ranks first."""
    out, out_fresh = np.full((N, WIDTH), -1, np.int32), np.zeros((N, WIDTH), np.uint8)
    for row in range(N):
        who = [
            (rank, other, fresh[other, rank])
            for other in range(N)
            for rank in range(1, K)
            if lists[other, rank] == lists[row, 0] and lists[other, 0] not in lists[row]
        ]
        for at, (_, other, new) in enumerate(sorted(who)[:WIDTH]):
            out[row, at], out_fresh[row, at] = other, new
    return out, out_fresh


def refined(vectors, places, lists, values, fresh, reverse, searched=NOWHERE):
    """Rows lie in cells of ten; searched : in which of them each row was searched."""
    cell = (np.arange(N) // 10).astype(np.int32)
    out = np.empty_like(lists), np.empty_like(values), np.empty_like(fresh)
    near = places_in(lists, places)
    for low in (0, 100, 200):
        args = (vectors, cell, searched, lists, near, values, fresh, *reverse)
        refine_lists(low, low + 100, *args, *out)
    return out


def nobody():
    return np.full((N, WIDTH), -1, np.int32), np.zeros((N, WIDTH), np.uint8)


def test_who_lists_a_row(start):
    _, places, lists, _ = start
    fresh = np.random.default_rng(0).integers(0, 2, lists.shape).astype(np.uint8)
    found = np.empty((N, WIDTH), np.int32), np.empty((N, WIDTH), np.uint8)
    for low in (0, 120, 240):
        reverse_lists(low, min(N, low + 120), places_in(lists, places), fresh, *found)
    for one, other in zip(found, reverse_of(places, lists, fresh), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_look_through_the_lists_of_both_sides(start):
    vectors, places, lists, values = start
    fresh = np.ones(lists.shape, np.uint8)
    reverse = reverse_of(places, lists, fresh)
    ids, d2, new = refined(vectors, places, lists, values, fresh, reverse)
    for row in range(N):
        around = [places[j] for j in lists[row] if j >= 0] + [j for j in reverse[0][row] if j >= 0]
        seen = {int(j) for other in around for j in lists[other] if j >= 0} - {int(lists[row, 0])}
        squared = {j: float(((vectors[row] - vectors[places[j]]) ** 2).sum()) for j in seen}
        best = sorted(seen, key=squared.get)[: K - 1]
        part = slice(1, 1 + len(best))
        assert ids[row, part].tolist() == best
        np.testing.assert_allclose(d2[row, part], [squared[j] for j in best], rtol=1e-5)
        assert (new[row, part] == ~np.isin(best, lists[row])).all()
        assert ids[row, 0] == lists[row, 0]
        assert (ids[row, part.stop :] == -1).all()


def test_what_was_compared_before_is_left_out_without_loss(start):
    vectors, places, lists, values = start
    ones = np.ones(lists.shape, np.uint8)
    ids, d2, new = refined(vectors, places, lists, values, ones, nobody())
    assert 0 < new.mean() < 1
    known = refined(vectors, places, ids, d2, new, nobody())
    for a, b in zip(known, refined(vectors, places, ids, d2, ones, nobody()), strict=True):
        np.testing.assert_array_equal(a, b)


def test_cells_in_which_a_row_was_searched_are_left_out(start):
    vectors, places, lists, values = start
    fresh = np.ones(lists.shape, np.uint8)
    reverse = reverse_of(places, lists, fresh)
    searched = np.stack([np.arange(N) % 30, np.full(N, -1)], axis=1).astype(np.int32)
    ids, _, _ = refined(vectors, places, lists, values, fresh, reverse)
    fewer, _, new = refined(vectors, places, lists, values, fresh, reverse, searched)
    assert (fewer != ids).any()
    for row in range(N):
        found = places[fewer[row, new[row] == 1]]
        assert row % 30 not in found // 10


def test_rounds_bring_what_borders_of_cells_keep_apart(monkeypatch):
    random = np.random.default_rng(3)
    centres = random.normal(size=(300, 64))
    rows = centres[random.integers(300, size=6000)] + 1.2 * random.normal(size=(6000, 64))
    rows = rows.astype(np.float32)
    exact = exact_neighbors(rows, 12, Runner(2)).indices
    monkeypatch.setattr(cells, "PROBES", 2)
    recall = []
    for rounds in (0, 8):
        monkeypatch.setattr(cells, "_REFINED", rounds)
        found = CellSearch(rows, Runner(2)).rows(0, len(rows), 12).indices
        held = [len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True)]
        recall.append(np.mean(held) / 12)
    assert recall[1] > recall[0] + 0.07, recall


def test_as_many_cells_are_probed_as_a_sample_needs(monkeypatch):
    """Few where rows lie in groups that are no larger than cells, all where they do not."""
    random = np.random.default_rng(4)
    centres = 4 * random.normal(size=(150, 16))
    grouped = centres[np.arange(6000) % 150] + 0.3 * random.normal(size=(6000, 16))
    probed = []
    search = cells.Cells.search

    def noted(self, rows, k, probes, names, run):
        probed.append(probes)
        return search(self, rows, k, probes, names, run)

    monkeypatch.setattr(cells.Cells, "search", noted)
    for made, least in ((grouped, 0.99), (random.normal(size=(6000, 8)), 0.95)):
        rows = made.astype(np.float32)
        found = CellSearch(rows, Runner(2)).rows(0, len(rows), 12).indices
        exact = exact_neighbors(rows, 12, Runner(2)).indices
        held = [len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True)]
        assert np.mean(held) / 12 > least
    assert probed == [8, 48]
