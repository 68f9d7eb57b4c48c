"""What cannot be used is refused in one sentence, and absence says how to get it."""

import subprocess
import sys

import numpy as np
import pytest

import kinrank
from cli_helpers import run
from kinrank import learned
from kinrank.evaluate.spec import parse_method
from kinrank.io import save_safetensors
from kinrank.learned.fitting import build
from kinrank.learned.recipes import load_weights, save_weights
from learned_models import SUPERVISED, TINY, WIDTH, untrained, weights

ROWS = np.random.default_rng(0).normal(size=(30, WIDTH))


@pytest.mark.parametrize("name", SUPERVISED)
def test_without_weights_the_error_says_how_to_train(name):
    text = rf"`weights` must be a file.*got None\. Train them with: kinrank train {name} --features"
    with pytest.raises(kinrank.InvalidInputError, match=text):
        kinrank.rerank(ROWS[:2], ROWS, name)
    with pytest.raises(kinrank.InvalidInputError, match="kinrank train"):
        parse_method(name)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        kinrank.rerank(ROWS[:2], ROWS, name, weights="nowhere.safetensors")


@pytest.mark.parametrize("name", SUPERVISED)
def test_wrong_dimension_and_wrong_method(name):
    other = untrained(name, WIDTH + 1)
    with pytest.raises(kinrank.InvalidInputError, match=rf"with {WIDTH} columns.*{WIDTH + 1}"):
        kinrank.rerank(ROWS[:2], ROWS, name, **other)
    wrong = next(n for n in SUPERVISED if n != name)
    with pytest.raises(kinrank.InvalidInputError, match=f"trained for {name}.*is for {wrong}"):
        kinrank.rerank(ROWS[:2], ROWS, name, **untrained(wrong, WIDTH))


def test_files_that_are_no_weights(tmp_path):
    file = tmp_path / "w.safetensors"
    save_safetensors(file, {"a": np.zeros(3, np.float32)}, {})
    with pytest.raises(kinrank.FileFormatError, match="without a model card"):
        kinrank.rerank(ROWS[:2], ROWS, "csa", weights=file)
    file.write_bytes(b"\x80\x04pickle")
    with pytest.raises(kinrank.FileFormatError, match="safetensors"):
        kinrank.rerank(ROWS[:2], ROWS, "csa", weights=file)
    arrays, card = load_weights(weights("ssr", WIDTH), "ssr", WIDTH)
    scale = arrays.pop("scale")
    save_weights(file, arrays, card)
    with pytest.raises(kinrank.FileFormatError, match=r"weights 'scale' of shape \(\), got none"):
        kinrank.rerank(ROWS[:2], ROWS, "ssr", weights=file)
    save_weights(file, {**arrays, "scale": scale * np.nan}, card)
    with pytest.raises(kinrank.FileFormatError, match="finite weights 'scale'"):
        kinrank.rerank(ROWS[:2], ROWS, "ssr", weights=file)


def test_devices_that_are_not_there():
    with pytest.raises(kinrank.InvalidInputError, match="`device` must be one that torch can use"):
        kinrank.rerank(ROWS[:2], ROWS, "csa", device="abacus", **untrained("csa", WIDTH))
    with pytest.raises(kinrank.InvalidInputError, match="`device` must be a word"):
        kinrank.GSS(device=3)
    with pytest.raises(kinrank.InvalidInputError, match="`device` must be one that torch can use"):
        kinrank.rerank(ROWS[:2], ROWS, "gss", device="abacus")


def test_lattqe_cannot_look_farther_than_it_was_trained_to():
    with pytest.raises(kinrank.InvalidInputError, match=r"`kqe` must be no larger.*\(6\), got 9"):
        kinrank.rerank(ROWS[:2], ROWS, "lattqe", kqe=9, **untrained("lattqe", WIDTH))


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("csa", {"epochs": 0}, "`epochs` must be an integer between 1 and 100000"),
        ("csa", {"heads": 5}, "`heads` must divide the width 12, got 5"),
        ("ssr", {"rate": 0.0}, "`rate` must be a number in"),
        ("ssr", {"holdout": 1.0}, "`holdout` must be a number in"),
        ("lattqe", {"holdout": 0.01}, "enough identities"),
        ("lattqe", {"kq": 3}, "`parameter of lattqe` must be one of"),
        ("csa", {"labels": None}, "`labels` must be given to train csa"),
        ("csa", {"labels": np.arange(7)}, "`labels` must be one number or word for each"),
        ("csa", {"cams": np.zeros((3, 3))}, "`cams` must be one number or word for each"),
        ("csa", {"labels": np.arange(240)}, "some row another row of its identity"),
        ("gss", {}, "`labels` and `cams` must not be given for gss"),
        ("cas", {}, "`method to train` must be one of csa, gss, lattqe, ssr, got 'cas'"),
    ],
)
def test_trainings_that_cannot_be(half, tmp_path, name, change, text):
    given = {"labels": half[1], "out": tmp_path / "m", **TINY.get(name, {}), **change}
    with pytest.raises((kinrank.InvalidInputError, kinrank.UnknownNameError), match=text):
        learned.train(name, half[0], given.pop("labels"), **given)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("name", SUPERVISED)
def test_lists_longer_than_the_data_are_reduced(half, tmp_path, name):
    given = {"out": tmp_path / "m", "epochs": 1, "threads": 1, "holdout": 0.5}
    with pytest.warns(kinrank.KinrankWarning) as caught:
        learned.train(name, half[0][:60], half[1][:60], **given)
    assert any("there are only 29 other rows" in str(warning.message) for warning in caught)
    ranking = kinrank.rerank(half[0][:3], half[0][:60], name, weights=tmp_path / "m")
    assert ranking.indices.shape == (3, 60)


def test_a_model_that_does_not_help_is_said_to(half, tmp_path):
    labels = np.random.default_rng(0).permutation(half[1])
    with pytest.warns(kinrank.KinrankWarning, match="did not help on the held-out identities"):
        learned.train(
            "ssr", half[0], labels, out=tmp_path / "m", threads=1, rate=1e-9, **TINY["ssr"]
        )


def test_the_command_refuses_in_one_line(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    args = ["--features", tmp_path / "x.npy", "--out", tmp_path / "m"]
    for words, text in ((["csa"], "`labels` must be given"), (["cas"], "'cas' is not one of")):
        result = run("train", *words, *args)
        assert result.exit_code == 2
        assert text in result.stderr
    result = run("rerank", "--method", "csa", "--query", tmp_path / "x.npy", "--gallery",
                 tmp_path / "x.npy", "--out", tmp_path / "r.npz")  # fmt: skip
    assert result.exit_code == 2
    assert "Train them with: kinrank train csa" in result.stderr


def test_other_weights_in_the_same_file_are_another_cell(tmp_path):
    file = tmp_path / "w.safetensors"
    file.write_bytes(weights("ssr", WIDTH).read_bytes())
    first = parse_method(f"ssr(weights={file})").identity()
    assert first == parse_method(f"ssr(weights={file})").identity()
    network = build(learned.SSRRecipe(m=10, hidden=8, seed=4), WIDTH)
    from kinrank.learned.network import to_arrays

    save_weights(file, to_arrays(network), load_weights(file, "ssr", WIDTH)[1])
    assert parse_method(f"ssr(weights={file})").identity() != first


def script(code):
    words = [sys.executable, "-c", code]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)


def test_torch_is_loaded_when_it_is_used_and_not_before():
    code = (
        "import sys, kinrank, kinrank.learned, kinrank.cli.app; kinrank.CSA(weights='x');"
        "kinrank.GSS(); kinrank.LAttQE(weights='x'); kinrank.learned.recipe_class('ssr')();"
        "from kinrank.cli.app import app; app.commands['train'].make_context('train', ['csa'],"
        "resilient_parsing=True); assert 'torch' not in sys.modules"
    )
    assert script(code).stderr == ""


def test_without_torch_the_error_names_the_extra():
    hide = "import sys; sys.modules['torch'] = None; import kinrank; from kinrank import learned; "
    for code in (
        "kinrank.rerank([[1.0, 0]], [[1.0, 0]], 'gss')",
        "kinrank.rerank([[1.0, 0]], [[1.0, 0]], 'csa', weights='x')",
        "learned.train('gss', [[1.0, 0], [0, 1]], out='x')",
    ):
        done = script(hide + code)
        assert "OptionalDependencyError" in done.stderr
        assert "pip install 'kinrank[torch]'" in done.stderr
