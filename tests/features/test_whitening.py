import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from kinrank import FileFormatError, InvalidInputError, KinrankWarning, Projection
from kinrank.features import learned_whitening, pca_whitening
from kinrank.io import save_npz, save_safetensors

RNG = np.random.default_rng(0)
MIX = RNG.normal(size=(8, 8))
ROWS = RNG.normal(size=(400, 8)) @ MIX + 3
LABELS = RNG.integers(0, 40, 400)


def covariance(rows):
    rows = np.asarray(rows, np.float64)
    centred = rows - rows.mean(axis=0)
    return centred.T @ centred / len(rows)


def test_pca_gives_the_identity_as_covariance():
    whitened = pca_whitening(ROWS).apply(ROWS, normalize=False)
    np.testing.assert_allclose(covariance(whitened), np.eye(8), atol=1e-5)
    np.testing.assert_allclose(whitened.mean(axis=0), 0, atol=1e-5)


def test_pca_keeps_the_largest_directions():
    whole, few = pca_whitening(ROWS), pca_whitening(ROWS, 3)
    np.testing.assert_array_equal(few.matrix, whole.matrix[:3])
    np.testing.assert_array_equal(few.apply(ROWS), whole.apply(ROWS, 3))
    spread = np.linalg.norm(whole.matrix, axis=1)  # one over the standard deviation
    assert (np.diff(spread) > 0).all()
    np.testing.assert_allclose(np.linalg.norm(few.apply(ROWS), axis=1), 1, rtol=1e-5)


def test_pca_knows_how_many_directions_there_are():
    flat = ROWS[:5]
    assert pca_whitening(flat).dims == 4
    with pytest.raises(InvalidInputError, match="`dims` must be an integer between 1 and 4"):
        pca_whitening(flat, 5)
    with pytest.raises(InvalidInputError, match="must differ"):
        pca_whitening(np.ones((4, 3)))


def all_pairs(labels):
    same = labels[:, None] == labels[None]
    np.fill_diagonal(same, False)
    return np.argwhere(same)


def test_learned_whitening_makes_differences_of_pairs_white():
    pairs = all_pairs(LABELS)
    whitening = learned_whitening(ROWS, pairs=pairs)
    rows = whitening.apply(ROWS, normalize=False).astype(np.float64)
    differences = rows[pairs[:, 0]] - rows[pairs[:, 1]]
    np.testing.assert_allclose(differences.T @ differences / len(pairs), np.eye(8), atol=1e-4)
    centred = rows - rows[pairs[:, 0]].mean(axis=0)
    spread = centred.T @ centred / len(rows)
    np.testing.assert_allclose(spread - np.diag(np.diag(spread)), 0, atol=1e-4)
    assert (np.diff(np.diag(spread)) <= 1e-6).all()


def test_labels_mean_all_their_pairs():
    by_pairs = learned_whitening(ROWS, pairs=all_pairs(LABELS), dims=5)
    by_labels = learned_whitening(ROWS, labels=LABELS, dims=5)
    np.testing.assert_allclose(by_labels.mean, by_pairs.mean, rtol=1e-6)
    np.testing.assert_allclose(by_labels.matrix, by_pairs.matrix, atol=1e-5)


def test_learned_whitening_finds_what_tells_classes_apart():
    centres = np.arange(30.0)[:, None] - 15
    noise = RNG.normal(size=(600, 6)) * 10
    labels = np.repeat(np.arange(30), 20)
    rows = np.concatenate(
        [np.repeat(centres, 20, axis=0) + RNG.normal(size=(600, 1)) / 10, noise], 1
    )

    def share(points):
        distances = np.linalg.norm(points[:, None] - points[None], axis=2)
        np.fill_diagonal(distances, np.inf)
        return (labels[distances.argmin(axis=1)] == labels).mean()

    assert share(learned_whitening(rows, labels=labels).apply(rows, 1, normalize=False)) > 0.8
    assert share(pca_whitening(rows).apply(rows, 1, normalize=False)) < 0.3


def test_too_few_pairs_are_told():
    with pytest.warns(KinrankWarning, match="too few matching pairs"):
        learned_whitening(ROWS, pairs=[[0, 1], [2, 3]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Either `labels` or `pairs`"),
        ({"labels": LABELS, "pairs": [[0, 1]]}, "Either `labels` or `pairs`"),
        ({"labels": LABELS[:-1]}, "one for each of the 400 rows"),
        ({"labels": np.arange(400)}, "occurs twice"),
        ({"pairs": [[0, 400]]}, "rows from 0 to 399, got 0 to 400"),
        ({"pairs": [0, 1]}, r"`pairs` must be \(m, 2\)"),
        ({"pairs": [[0, 0]]}, "must differ"),
        ({"labels": LABELS, "dims": 9}, "between 1 and 8"),
    ],
)
def test_learned_whitening_refuses(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        learned_whitening(ROWS, **arguments)


def test_rows_must_be_finite_and_fit():
    with pytest.raises(InvalidInputError, match="must be finite"):
        pca_whitening([[1.0, np.nan], [0.0, 1.0]])
    with pytest.raises(InvalidInputError, match="must have 8 columns"):
        pca_whitening(ROWS).apply(ROWS[:, :7])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (ROWS * np.nan, "must be finite"),
        (ROWS * 1e300, "must fit float32, got a value of"),
        (ROWS.astype(np.longdouble) ** 4000, "must be finite"),
        (ROWS * 1j, "must hold real numbers, got dtype complex128"),
        (np.ma.array(ROWS, mask=ROWS > 3), "must have no masked entries"),
    ],
)
def test_rows_that_cannot_be(bad, message):
    with np.errstate(over="ignore"), pytest.raises(InvalidInputError, match=f"`rows` {message}"):
        pca_whitening(ROWS).apply(bad)
    with np.errstate(over="ignore"), pytest.raises(InvalidInputError, match=f"`rows` {message}"):
        pca_whitening(bad)


def test_sizes_that_do_not_fit():
    with pytest.raises(InvalidInputError, match=r"about as large as those .* got values up to 3"):
        pca_whitening(ROWS * 1e-30).apply(np.full((1, 8), 3e38), normalize=False)
    for make in (pca_whitening, lambda rows: learned_whitening(rows, labels=LABELS)):
        with pytest.raises(InvalidInputError, match="`rows` must differ by more"):
            make(ROWS * 1e-42)
        assert np.isfinite(make(ROWS * 1e-30).apply(ROWS * 1e-30)).all()
        assert np.isfinite(make(ROWS * 1e30).apply(ROWS * 1e30)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300, 1j, "a", None])
def test_a_whitening_is_of_finite_numbers(bad, tmp_path):
    with pytest.raises(InvalidInputError, match="`matrix` must"):
        Projection(np.zeros(2), [[bad, 1.0]])
    if isinstance(bad, float):
        arrays = {"mean": np.zeros(2), "matrix": np.array([[bad, 1.0]])}
        save_safetensors(tmp_path / "bad", arrays, {})
        with pytest.raises(FileFormatError, match="a projection saved by kinrank, got: `matrix"):
            Projection.load(tmp_path / "bad")


def test_labels_of_two_kinds():
    labels = np.array([None, 1] * 200, object)
    with pytest.raises(InvalidInputError, match="`labels` must be of one kind"):
        learned_whitening(ROWS, labels=labels)


def test_saved_and_loaded(tmp_path):
    whitening = learned_whitening(ROWS, labels=LABELS)
    parts = {"mean": whitening.mean, "matrix": whitening.matrix}
    save_file(parts, tmp_path / "theirs.safetensors")
    whitening.save(tmp_path / "w.safetensors")
    assert load_file(tmp_path / "w.safetensors").keys() == parts.keys()
    for name in ("w.safetensors", "theirs.safetensors"):
        loaded = Projection.load(tmp_path / name)
        np.testing.assert_array_equal(loaded.apply(ROWS), whitening.apply(ROWS))


def test_other_files_are_refused(tmp_path):
    save_npz(tmp_path / "a.npz", mean=np.zeros(3), matrix=np.zeros((2, 3)))
    save_safetensors(tmp_path / "b", {"mean": np.zeros(3)}, {})
    save_safetensors(tmp_path / "c", {"mean": np.zeros(3), "matrix": np.zeros((2, 4))}, {})
    for name in ("a.npz", "b", "c"):
        with pytest.raises(FileFormatError, match="must be a "):
            Projection.load(tmp_path / name)
