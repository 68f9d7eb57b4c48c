"""An index that chose its parameters: what it keeps, says, and when it should choose again."""

import json
import warnings

import numpy as np
import pytest
from click.testing import CliRunner

import kinrank
from kinrank.cli.app import app
from kinrank.index.auto_parameters import AutoParameters
from row_data import blobs

ROWS = blobs()


@pytest.fixture(scope="module")
def index():
    return kinrank.CAS().fit(ROWS, params="auto")


def test_it_is_that_of_the_method_that_was_chosen(index):
    tuning = kinrank.tune(None, ROWS)
    expected = tuning.make().fit(ROWS).search(ROWS[:5], k=10)
    found = index.search(ROWS[:5], k=10)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)
    assert index.method.geodesic
    assert index.chosen.reasons == tuning.reasons
    assert index.chosen.rows == len(ROWS)
    assert index.chosen.verdict == "will help"


def test_given_parameters_stay():
    index = kinrank.CAS(k1=15, k2=4).fit(ROWS, params="auto")
    assert (index.method.k1, index.method.k2) == (15, 4)
    assert set(index.chosen.reasons) == {"whiten", "geodesic"}


def test_other_words_are_refused():
    with pytest.raises(kinrank.UnknownNameError, match="`params` must be one of auto"):
        kinrank.CAS().fit(ROWS, params="best")


def test_the_file_keeps_it(index, tmp_path):
    index.save(tmp_path / "a.kin")
    opened = kinrank.open(tmp_path / "a.kin")
    assert opened.chosen == index.chosen
    assert opened.info()["chosen"] == {**vars(index.chosen), "outgrown": False}


def test_without_it_there_is_nothing_to_say(tmp_path):
    plain = kinrank.CAS().fit(ROWS)
    plain.save(tmp_path / "a.kin")
    assert kinrank.open(tmp_path / "a.kin").chosen is None
    assert plain.info()["chosen"] is None
    assert plain.explain(ROWS[0], 3).chosen == {}


@pytest.mark.parametrize(
    "words",
    [None, 3, {}, {"rows": 1}, *[
        {"rows": 5, "verdict": "x", "because": "y", "gain": 0.1, "reasons": {}} | change
        for change in ({"rows": "5"}, {"rows": 0}, {"reasons": {"k1": 3}}, {"gain": None}, {"a": 1})
    ]],
)  # fmt: skip
def test_a_file_that_says_something_else_says_nothing(words):
    assert AutoParameters.read(words) is None


def test_it_says_once_when_it_has_outgrown_its_choice():
    index = kinrank.CAS().fit(ROWS, params="auto")
    more = blobs(seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index.add(more[:200])
    assert not index.info()["chosen"]["outgrown"]
    with pytest.warns(kinrank.KinrankWarning, match="from 300 to 600 rows .* choose again"):
        index.add(more[200:])
    assert index.info()["chosen"]["outgrown"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index.add(blobs(2, seed=2))


def test_an_explanation_has_the_reasons(index):
    text = str(index.explain(ROWS[0], 3))
    assert "chosen for this gallery without labels" in text
    assert index.chosen.reasons["k1"] in text


def test_the_command(tmp_path):
    np.save(tmp_path / "g.npy", ROWS)
    out = str(tmp_path / "a.kin")
    built = CliRunner().invoke(
        app, ["index", "build", "--gallery", str(tmp_path / "g.npy"), "--out", out, "--params",
              "auto", "--k2", "4"]
    )  # fmt: skip
    assert built.exit_code == 0, built.output
    said = CliRunner().invoke(app, ["index", "info", out]).output
    assert "Parameters chosen without labels for 300 rows" in said
    assert "re-ranking will help" in said
    assert "\n  k1 " in said
    as_json = json.loads(CliRunner().invoke(app, ["index", "info", out, "--json"]).output)
    assert as_json["chosen"]["rows"] == 300
    assert as_json["parameters"]["k2"] == 4
