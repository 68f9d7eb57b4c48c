"""Rows kept in float16: every value comes back, and no array of all of them by accident."""

import numpy as np
import pytest

import kinrank
from kinrank.kernels.stored import decode, row_of
from kinrank.search.stored import HalfRows, for_kernels, rows_between, stored_vectors
from kinrank.search.tiles import squared_norms


def test_every_finite_value_is_decoded():
    every = np.arange(1 << 16, dtype=np.uint16)
    every = every[np.isfinite(every.view(np.float16))]
    assert len(every) == 63488
    out, expected = np.empty(len(every), np.float32), every.view(np.float16).astype(np.float32)
    for one in (decode, getattr(decode, "py_func", decode)):
        out[:] = 7
        one(every, out)
        np.testing.assert_array_equal(out.view(np.uint32), expected.view(np.uint32))


def test_a_row_is_read_without_numba_too():
    values = np.float16([[1.5, -2], [0, 6e-8]])
    space = np.empty(2, np.float32)
    assert row_of(values.view(np.uint16), 1, space) is space
    np.testing.assert_array_equal(space, values[1].astype(np.float32))
    whole = values.astype(np.float32)
    assert row_of(whole, 1, space).base is whole


def test_parts_are_float32_and_views_stay_half():
    values = np.random.default_rng(0).normal(size=(30, 7)).astype(np.float16)
    rows, wide = HalfRows(values.view(np.uint16)), values.astype(np.float32)
    some = np.array([4, 4, 29, 0])
    for key in (3, slice(2, 9), slice(None, None, 4), some, (slice(3, 5), None), np.arange(30) % 2):
        assert rows[key].dtype == np.float32
        np.testing.assert_array_equal(rows[key], wide[key])
    part = rows_between(rows, 10, 20)
    assert part.shape == (10, 7)
    assert np.shares_memory(for_kernels(part), values)
    np.testing.assert_array_equal(part[:], wide[10:20])
    np.testing.assert_array_equal((-rows)[:], -wide)
    with pytest.raises(TypeError, match="some at a time"):
        np.asarray(rows)
    with pytest.raises(TypeError, match="some at a time"):
        np.dot(wide, rows)


@pytest.mark.parametrize("width", [1, 3, 16, 130])
def test_norms_do_not_depend_on_how_rows_are_kept(width):
    values = np.random.default_rng(1).normal(size=(9000, width)).astype(np.float16)
    rows = HalfRows(values.view(np.uint16))
    np.testing.assert_array_equal(squared_norms(rows), squared_norms(values.astype(np.float32)))


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e30])
@pytest.mark.parametrize("moved", [0.0, 1e4])
@pytest.mark.parametrize("cosine", [False, True])
def test_rows_are_rounded_when_all_else_is_done(scale, moved, cosine):
    random = np.random.default_rng(2)
    queries, gallery = scale * (random.normal(size=(2, 2500, 4)) + moved)
    named = [("queries", queries[:37]), ("gallery", gallery)]
    plain = stored_vectors(named, cosine, 1)
    half = stored_vectors(named, cosine, 1, dtype="float16")
    np.testing.assert_array_equal(half[:], plain.astype(np.float16).astype(np.float32))


def test_values_that_float16_has_not_are_refused():
    queries, gallery = np.ones((2, 3), np.float32), np.zeros((400, 3), np.float32)
    gallery[333, 1] = -65504
    named = [("queries", queries), ("gallery", gallery)]
    assert stored_vectors(named, False, 1, dtype="float16")[335, 1] == -65504
    gallery[333, 1] = -70000
    message = r"`gallery` must hold values of at most 65504 .*float16.*got -70000 in row 333\."
    with pytest.raises(kinrank.InvalidInputError, match=message):
        kinrank.rerank(queries, gallery, k=3, run=kinrank.Run(vectors="float16"))
    kinrank.rerank(
        queries, gallery + 1, "aqe", k=3, run=kinrank.Run(vectors="float16")
    )  # normalised first


@pytest.mark.parametrize("vectors", ["float64", "half", None, 16])
def test_other_names_are_refused(vectors):
    points = np.random.default_rng(3).normal(size=(60, 4))
    with pytest.raises(kinrank.UnknownNameError, match="vectors"):
        kinrank.rerank(points[:5], points[5:], k=3, run=kinrank.Run(vectors=vectors))


def test_bad_rows_are_named_as_ever():
    points = np.random.default_rng(4).normal(size=(600, 4))
    points[:5] += 1
    points[555] = 0
    with pytest.raises(kinrank.InvalidInputError, match="Row 550 of `gallery` is a zero vector"):
        kinrank.rerank(points[:5], points[5:], "aqe", 3, run=kinrank.Run(vectors="float16"))
    points[555, 2] = np.nan
    with pytest.raises(kinrank.InvalidInputError, match=r"`gallery` must be finite.* row 550"):
        kinrank.rerank(points[:5], points[5:], k=3, run=kinrank.Run(vectors="float16"))
