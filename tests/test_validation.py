import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

from kinrank import InvalidInputError, KinrankWarning, UnknownNameError
from kinrank.validation import (
    as_array,
    as_matrix,
    as_vectors,
    check_bool,
    check_choice,
    check_float,
    check_int,
    reduce_k,
)


class Tensor:
    """What a torch tensor looks like to someone who has not imported torch."""

    __module__ = "torch"

    def __init__(self, values, dtype="torch.float32", steps=()):
        self.values, self.dtype, self.steps = np.asarray(values), dtype, steps

    def detach(self):
        return Tensor(self.values, self.dtype, (*self.steps, "detach"))

    def cpu(self):
        return Tensor(self.values, self.dtype, (*self.steps, "cpu"))

    def float(self):
        return Tensor(self.values, "torch.float32", self.steps)

    def __array__(self, dtype=None, copy=None):
        assert self.steps == ("detach", "cpu"), "grad and GPU tensors have no numpy form"
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values


# Numbers and choices


@pytest.mark.parametrize("value", [1, 7, np.int64(7), np.uint8(3)])
def test_int_accepts(value):
    checked = check_int("k", value, 1, 7)
    assert checked == value
    assert type(checked) is int


@pytest.mark.parametrize("value", [0, 8, True, 2.0, "3", None, np.float32(2), [3]])
def test_int_refuses(value):
    with pytest.raises(InvalidInputError, match="`k` must be an integer between 1 and 7, got"):
        check_int("k", value, 1, 7)


def test_int_without_an_upper_end():
    assert check_int("k", 10**9, 1) == 10**9
    with pytest.raises(InvalidInputError, match="of at least 1, got 0"):
        check_int("k", 0, 1)


@pytest.mark.parametrize("value", [0, 0.5, 1, np.float32(0.25), np.int8(1)])
def test_float_accepts(value):
    checked = check_float("omega", value, 0, 1)
    assert checked == value
    assert type(checked) is float


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, np.inf, True, "0.5", None, 1j])
def test_float_refuses(value):
    with pytest.raises(InvalidInputError, match=r"`omega` must be a number in \[0, 1\], got"):
        check_float("omega", value, 0, 1)


@pytest.mark.parametrize(
    ("value", "ends", "shown"),
    [
        (0, {"low_open": True, "high": 1}, r"\(0, 1\]"),
        (1, {"high_open": True, "high": 1}, r"\[0, 1\)"),
        (np.inf, {}, r"\[0, inf\)"),
    ],
)
def test_float_open_ends(value, ends, shown):
    with pytest.raises(InvalidInputError, match=f"must be a number in {shown}, got"):
        check_float("x", value, 0, **ends)


@pytest.mark.parametrize("value", [True, False, np.True_])
def test_bool_accepts(value):
    assert type(check_bool("on", value)) is bool


@pytest.mark.parametrize("value", [0, 1, "yes", None])
def test_bool_refuses(value):
    with pytest.raises(InvalidInputError, match="`on` must be True or False, got"):
        check_bool("on", value)


def test_choice():
    assert check_choice("solver", "local", ("local", "dense")) == "local"
    assert check_choice("smoothing", None, ("aqe", None)) is None
    with pytest.raises(UnknownNameError, match=r"got .locl.\. Did you mean .local."):
        check_choice("solver", "locl", ("local", "dense"))


@pytest.mark.parametrize("value", [["local"], {"local": 1}, 3, np.array(["local", "dense"])])
def test_choice_of_another_kind(value):
    with pytest.raises(UnknownNameError, match="`solver` must be one of"):
        check_choice("solver", value, ("local", "dense"))


def test_reduce_k_is_silent_within_the_limit():
    assert reduce_k("k1", 5, 5, "rows") == 5


def test_reduce_k_warns_beyond_it():
    with pytest.warns(KinrankWarning, match="`k1` is 6, but there are only 5 rows: 5 is used"):
        assert reduce_k("k1", 6, 5, "rows") == 5


# Arrays


def test_arrays_are_taken_as_they_are():
    array = np.ones((2, 2), np.float16)
    assert as_array("x", array) is array


def test_lists_become_arrays():
    np.testing.assert_array_equal(as_array("x", [[1, 2], [3, 4]]), [[1, 2], [3, 4]])


def test_torch_tensors_without_torch():
    np.testing.assert_array_equal(as_array("x", Tensor([[1.0, 2.0]])), [[1, 2]])
    np.testing.assert_array_equal(as_array("x", Tensor([[1.5]], "torch.bfloat16")), [[1.5]])


def test_sparse_is_refused():
    with pytest.raises(InvalidInputError, match="`x` must be a dense array, got a sparse matrix"):
        as_array("x", csr_array(np.eye(3)))


def test_ragged_lists_are_refused():
    with pytest.raises(InvalidInputError, match="`x` must be an array, got"):
        as_array("x", [[1, 2], [3]])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0], r"two-dimensional \(one vector is reshape\(1, -1\)\), got 1 dimension"),
        (3.0, r"two-dimensional, got 0 dimension"),
        (np.ones((2, 2, 2)), r"got 3 dimension\(s\), shape \(2, 2, 2\)"),
        (np.empty((0, 4)), r"at least one row and one column, got shape \(0, 4\)"),
        (np.empty((4, 0)), r"got shape \(4, 0\)"),
        ([["a", "b"]], "must hold real numbers, got dtype <U1"),
        ([[1j]], "got dtype complex128"),
        ([[True]], "got dtype bool"),
        (np.array([[None]]), "got dtype object"),
    ],
)
def test_matrix_refuses(values, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        as_matrix("gallery", values)
    assert str(caught.value).startswith("`gallery` must")


def test_vectors_are_stacked_into_a_fresh_float32_array():
    first = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    second = np.arange(24, dtype=np.int16).reshape(4, 6)[::2, ::2]
    stacked = as_vectors(("queries", first), ("gallery", second))
    assert stacked.dtype == np.float32
    assert stacked.flags.c_contiguous
    assert not np.shares_memory(stacked, first)
    np.testing.assert_array_equal(stacked, np.vstack([first, second]))


def test_one_float32_array_is_copied():
    gallery = np.ones((2, 2), np.float32)
    assert not np.shares_memory(as_vectors(("gallery", gallery)), gallery)


def test_vectors_of_two_widths():
    with pytest.raises(
        InvalidInputError, match=r"`gallery` must have as many columns as `queries` \(3\), got 4"
    ):
        as_vectors(("queries", np.ones((2, 3))), ("gallery", np.ones((2, 4))))


@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_non_finite_values_are_found(bad, dtype, cosine):
    gallery = np.ones((20_000, 2), dtype)
    gallery[17_000, 1] = bad
    with pytest.raises(
        InvalidInputError, match="`gallery` must be finite, got NaN or infinity in row 17000"
    ):
        as_vectors(("queries", np.ones((1, 2))), ("gallery", gallery), cosine=cosine)


def test_zero_vectors_are_refused_only_where_they_have_no_direction():
    rows = np.array([[1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(as_vectors(("gallery", rows)), rows)
    with pytest.raises(InvalidInputError, match=r"Row 1 of .* is a zero vector"):
        as_vectors(("gallery", rows), cosine=True)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_cosine_rows_have_norm_one_at_any_scale(scale):
    rows = np.random.default_rng(0).normal(size=(5, 7)) * scale
    unit = as_vectors(("gallery", rows), cosine=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e-8, 1e8, 1e30, 1e300])
def test_huge_and_tiny_values_keep_their_proportions(scale):
    rows = np.random.default_rng(0).normal(size=(5, 7))
    scaled = as_vectors(("queries", rows[:2] * scale), ("gallery", rows[2:] * scale))
    factor = scaled[0, 0] / rows[0, 0]
    np.testing.assert_allclose(scaled, rows * factor, rtol=1e-5)
    squares = (scaled.astype(np.float64) ** 2).sum()
    assert 1e-10 < squares < 1e10


@given(
    hnp.arrays(
        st.sampled_from([np.float16, np.float32, np.float64, np.int32, np.uint8]),
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=5),
        elements=st.integers(0, 100),
    )
)
def test_ordinary_values_are_at_most_moved_together(rows):
    found, rows = as_vectors(("gallery", rows)), rows.astype(np.float32)
    np.testing.assert_array_equal(found - found[0], rows - rows[0])
