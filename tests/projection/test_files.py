"""A projection as a file, as arrays and as a network."""

import json

import numpy as np
import pytest

import kinrank
from cli_helpers import run
from kinrank import FileFormatError, InvalidInputError, Projection
from kinrank.io import save_safetensors
from projection.test_learning import kinds_of

ROWS, LABELS = kinds_of(n_kinds=90)


@pytest.mark.parametrize("kind", ["pairs", "views", 0.25])
def test_saved_and_loaded(kind, tmp_path):
    fitted = Projection.fit(ROWS, kind=kind)
    fitted.save(tmp_path / "map")
    loaded = Projection.load(tmp_path / "map")
    assert loaded.digest == fitted.digest
    assert loaded.words == fitted.words
    assert loaded.transform(ROWS).tobytes() == fitted.transform(ROWS).tobytes()


@pytest.mark.parametrize(
    "change",
    [
        {"blocks": [3, 4]},
        {"blocks": "all"},
        {"shares": [0.5, 0.6]},
        {"shares": [float("nan"), 1.0]},
        {"kind": 3},
        {"reason": None},
        {"rows": -1},
        {"rows": "many"},
    ],
)
def test_words_that_fit_nothing(change, tmp_path):
    fitted = Projection.fit(ROWS, kind="views")
    arrays = {"mean": fitted.mean, "matrix": fitted.matrix}
    words = json.dumps(fitted.words | change)
    save_safetensors(tmp_path / "map", arrays, {"projection": words})
    with pytest.raises(FileFormatError, match="must be a projection saved by kinrank"):
        Projection.load(tmp_path / "map")


def test_blocks_and_shares_are_checked():
    mean, matrix = np.zeros(3), np.eye(3)
    assert Projection(mean, matrix).blocks == (3,)
    for given, message in (
        ({"blocks": (1, 1)}, "`blocks` must sum"),
        ({"blocks": (0, 3)}, "`blocks` must"),
        ({"blocks": (1, 2), "shares": (0.5, 0.4)}, "sum to 1"),
        ({"shares": (-1.0,)}, "above 0"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            Projection(mean, matrix, **given)
    uneven = Projection(mean, matrix, (1, 2), (0.25, 0.75))
    got = uneven.transform([[1.0, 3.0, 4.0]])
    np.testing.assert_allclose(got, [[0.5, 0.6 * 0.75**0.5, 0.8 * 0.75**0.5]], rtol=1e-6)
    with pytest.raises(InvalidInputError, match="one block"):
        uneven.apply(np.eye(3), 2)
    with pytest.raises(InvalidInputError, match="must have 3 columns"):
        uneven.transform(np.eye(2))


@pytest.mark.parametrize("kind", ["pairs", "views"])
def test_a_network(kind, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    fitted = Projection.fit(ROWS, kind=kind)
    fitted.to_onnx(tmp_path / "map.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "map.onnx"))
    (projected,) = session.run(["projected"], {"vectors": ROWS.astype(np.float32)})
    np.testing.assert_allclose(projected, fitted.transform(ROWS), atol=2e-5)


def test_the_command(tmp_path):
    np.save(tmp_path / "g.npy", ROWS)
    np.save(tmp_path / "ids.npy", LABELS)
    gallery, out = str(tmp_path / "g.npy"), str(tmp_path / "map.safetensors")
    made = run("project", "--gallery", gallery, "--out", out)
    assert made.exit_code == 0, made.output
    assert "Learnt from" in made.stderr
    fitted = Projection.fit(ROWS)
    assert Projection.load(out).digest == fitted.digest
    applied = str(tmp_path / "projected.npy")
    assert run("project", "--map", out, "--apply", gallery, "--out", applied).exit_code == 0
    assert np.load(applied).tobytes() == fitted.transform(ROWS).tobytes()
    both = run("project", "--gallery", gallery, "--apply", gallery, "--out", applied, "--json")
    assert json.loads(both.stdout)["kind"] == "pairs"
    network = str(tmp_path / "map.onnx")
    ids = ["--ids", str(tmp_path / "ids.npy")]
    assert run("project", "--gallery", gallery, *ids, "--out", network).exit_code == 0
    for wrong in ([], ["--gallery", gallery, "--map", out], ["--map", out, *ids]):
        refused = run("project", *wrong, "--out", out)
        assert refused.exit_code == 2
    ranking = ["--query", gallery, "--gallery", gallery, "-k", "5"]
    for whiten in ("pairs", out):
        asked = ["--whiten", whiten, "--out", str(tmp_path / "r.npz")]
        assert run("rerank", *ranking, *asked).exit_code == 0


def test_the_index_keeps_and_learns_it_again(tmp_path):
    ids = [f"item {row}" for row in range(len(ROWS))]
    method = kinrank.CAS(k1=8, k2=3, whiten="pairs")
    index = method.fit(ROWS[:800], ids=ids[:800], attributes={"even": LABELS[:800] % 2 == 0})
    assert index.projection.digest == Projection.fit(ROWS[:800]).digest
    index.notes["kept"] = 1
    index.save(tmp_path / "i")
    with kinrank.open(tmp_path / "i", writable=True) as opened:
        assert opened.method.whiten == "pairs"
        assert opened.projection.words == index.projection.words
        before = index.search(ROWS[:9], 5)
        assert opened.search(ROWS[:9], 5).distances.tobytes() == before.distances.tobytes()
        with pytest.raises(InvalidInputError, match="of all 800 items"):
            opened.relearn(ROWS)
        opened.relearn(ROWS[:800])
        assert opened.search(ROWS[:9], 5).distances.tobytes() == before.distances.tobytes()
    even = {"even": LABELS[800:] % 2 == 0}
    index.calibrate(sample=50)
    index.add(ROWS[800:], ids=ids[800:], attributes=even)
    index.relearn(ROWS)
    assert index.calibration is None
    fresh = method.fit(ROWS, ids=ids)
    assert index.projection.digest == fresh.projection.digest
    assert index.projection.rows == len(ROWS)
    got, expected = index.search(ROWS[:9], 5), fresh.search(ROWS[:9], 5)
    assert got.ids.tolist() == expected.ids.tolist()
    assert index.notes == {"kept": 1}
    assert index.attributes["even"].tolist() == (LABELS % 2 == 0).tolist()
    index.relearn(ROWS, whiten=0.25)
    assert index.projection.kind == "0.25"


def test_an_index_says_when_to_learn_again():
    index = kinrank.CAS(k1=8, k2=3, whiten="pairs").fit(ROWS[:150])
    index.add(ROWS[150:290])
    with pytest.warns(kinrank.KinrankWarning, match=r"grown from 150 to 310 .*index.relearn"):
        index.add(ROWS[290:310])
    index.add(ROWS[310:330])  # said once
    plain = kinrank.CAS(k1=8, k2=3).fit(ROWS[:150])
    with pytest.raises(InvalidInputError, match="made without a projection"):
        plain.relearn(ROWS[:150])
    given = kinrank.CAS(k1=8, k2=3, whiten=Projection(np.zeros(32), np.eye(32))).fit(ROWS[:150])
    with pytest.raises(InvalidInputError, match="Say what to learn"):
        given.relearn(ROWS[:150])
    context = kinrank.CAS(k1=8, k2=3, whiten="pairs").fit(ROWS[:150], context=ROWS[150:200])
    with pytest.raises(InvalidInputError, match="`context` is missing"):
        context.relearn(ROWS[:150])
    context.relearn(ROWS[:150], ROWS[150:200])
    assert context.projection.rows == 200
