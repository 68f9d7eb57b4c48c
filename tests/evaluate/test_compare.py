"""Comparisons: what is in the cells, going on after a stop, failures, processes."""

import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import kinrank
from kinrank import InvalidInputError, UnknownNameError, datasets
from kinrank.evaluate import cells as cells_module
from kinrank.evaluate import comparison as compare_module
from kinrank.evaluate.ablation import ablate
from kinrank.evaluate.cells import Failed, Measured, fingerprint, measure
from kinrank.evaluate.comparison import compare
from kinrank.evaluate.spec import parse_method
from kinrank.evaluate.worker import WorkerError, exit_reason, run_worker
from kinrank.report.comparison import comparison_table, difference_table
from kinrank.report.formats import render


@pytest.fixture
def counted(monkeypatch):
    """The cells that are really computed."""
    computed = []

    def counting(spec, data, *, threads=None):
        computed.append((spec.label, data.name))
        return measure(spec, data, threads=threads)

    monkeypatch.setattr(compare_module, "measure", counting)
    return computed


def test_cells_are_the_metrics_of_the_methods(fake_method, toy_set) -> None:
    found = compare("none,fake", [toy_set], isolate=False)
    cell = found.get("fake", "toy")
    ranking = parse_method("fake").build().rerank(toy_set.query.features, toy_set.gallery.features)
    assert cell.summary == toy_set.evaluate(ranking).summary()
    assert cell.seconds > 0
    assert cell.headlines == ("mAP", "R1", "mINP")
    assert found.reference == "none"


def test_a_finished_cell_is_not_computed_again(fake_method, toy_set, counted, tmp_path) -> None:
    first = compare("none,fake", [toy_set], work=tmp_path, isolate=False)
    assert len(counted) == 2
    again = compare("none,fake,fake(k1=3)", [toy_set], work=tmp_path, isolate=False)
    assert counted[2:] == [("fake(k1=3)", "toy")]
    assert again.get("fake", "toy").summary == first.get("fake", "toy").summary
    np.testing.assert_array_equal(
        again.get("fake", "toy").per_query["mAP"], first.get("fake", "toy").per_query["mAP"]
    )


def test_it_goes_on_after_a_stop(fake_method, toy_set, counted, tmp_path) -> None:
    def stop(cell, done, total):
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare("none,fake", [toy_set], work=tmp_path, isolate=False, on_cell=stop)
    compare("none,fake", [toy_set], work=tmp_path, isolate=False)
    assert counted == [("none", "toy"), ("fake", "toy")]


def test_a_broken_file_is_computed_again(fake_method, toy_set, counted, tmp_path) -> None:
    compare("fake", [toy_set], work=tmp_path, isolate=False)
    (file,) = (tmp_path / "cells").iterdir()
    file.write_bytes(file.read_bytes()[:50])
    compare("fake", [toy_set], work=tmp_path, isolate=False)
    assert len(counted) == 2


def test_other_data_are_other_cells(toy_set, levels_set) -> None:
    changed = np.array(toy_set.gallery.features)
    changed[3, 1] += 1e-3
    prints = {
        fingerprint(toy_set),
        fingerprint(toy_set.with_features(toy_set.query.features, changed)),
        fingerprint(replace(toy_set, protocol="retrieval")),
        fingerprint(replace(toy_set, query=replace(toy_set.query, labels=np.zeros(20, int)))),
        fingerprint(levels_set),
        fingerprint(replace(levels_set, gnd=levels_set.gnd[::-1])),
    }
    assert len(prints) == 6
    assert fingerprint(toy_set) == fingerprint(replace(toy_set, name="other"))


def test_a_failure_does_not_stop_the_others(fake_method, toy_set) -> None:
    empty = datasets.Dataset(
        name="empty",
        protocol="reid",
        query=datasets.Part(labels=np.array([1])),
        gallery=datasets.Part(labels=np.array([1])),
    )
    told = []
    found = compare("none,fake", [empty, toy_set], isolate=False, on_cell=lambda *a: told.append(a))
    assert [type(cell) for cell, _, _ in told] == [Failed, Failed, Measured, Measured]
    assert [(done, total) for _, done, total in told] == [(n, 4) for n in range(1, 5)]
    assert len(found.failures) == 2
    assert "cannot be ranked" in found.failures[0].reason
    text = render(comparison_table(found), "md")
    assert "none on empty failed" in text


def test_what_is_refused(fake_method, toy_set) -> None:
    with pytest.raises(InvalidInputError, match="`sets` must have at least one data set"):
        compare("none", [])
    with pytest.raises(InvalidInputError, match="`sets` must have different names, got toy twice"):
        compare("none", [toy_set, toy_set])


def test_methods_as_a_list(fake_method, toy_set) -> None:
    """Names, what the command line takes, and parsed methods; each once."""
    given = ["none", "fake(k1=3)", parse_method("fake"), "none,fake"]
    found = compare(given, [toy_set], isolate=False)
    assert found.methods == ["none", "fake(k1=3)", "fake"]
    assert not found.failures
    assert compare(("none",), (toy_set,), isolate=False).methods == ["none"]


@pytest.mark.parametrize(
    "methods", [None, 3, [None], [kinrank.CAS()], kinrank.CAS(), {"cas": 1}, b"cas", [["cas"]]]
)
def test_what_is_no_method(methods, toy_set) -> None:
    with pytest.raises(InvalidInputError, match="`methods` must be names such as"):
        compare(methods, [toy_set], isolate=False)


@pytest.mark.parametrize("methods", ["", [], [""], " , "])
def test_no_method_at_all(methods, toy_set) -> None:
    with pytest.raises(InvalidInputError, match="`methods` must name at least one"):
        compare(methods, [toy_set], isolate=False)


@pytest.mark.parametrize("sets", ["toy", ["toy"], None, 3, [None]])
@pytest.mark.parametrize("call", [partial(compare, "none"), ablate])
def test_what_is_no_set(sets, call) -> None:
    with pytest.raises(InvalidInputError, match="`sets` must be a list of data sets"):
        call(sets)


def test_one_set_is_put_in_a_list(toy_set) -> None:
    with pytest.raises(InvalidInputError, match="`sets` must be a list of data sets"):
        compare("none", toy_set)


@pytest.mark.parametrize("work", [0, "", False, b"here", "a\0b", 3.5, ["here"]])
def test_a_folder_for_finished_cells_is_a_path(work, toy_set) -> None:
    with pytest.raises(InvalidInputError, match="`work` must be the path"):
        compare("none", [toy_set], work=work, isolate=False)


def test_a_cell_in_its_own_process(toy_set, tmp_path) -> None:
    found = compare("none,cas(k1=8,k2=3)", [toy_set], work=tmp_path, isolate=True)
    assert not found.failures
    for method in found.methods:
        cell = found.get(method, "toy")
        assert cell.peak_bytes >= cell.start_bytes > 10_000_000
        same = measure(parse_method(method), toy_set)
        assert cell.summary == pytest.approx(same.summary)
    assert "memory (MB)" in render(comparison_table(found), "md")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell it right by themselves")
def test_the_peak_of_a_process_is_not_that_of_its_parent() -> None:
    ballast = np.ones(40_000_000)
    code = "from kinrank.progress import peak_memory; print(peak_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert int(done.stdout) < ballast.nbytes


def test_a_worker_that_fails_says_why(tmp_path) -> None:
    with pytest.raises(WorkerError, match="FileNotFoundError"):
        run_worker(parse_method("none"), {"path": str(tmp_path / "absent")}, tmp_path / "r.npz")
    assert "for want of memory" in exit_reason(-9)
    assert exit_reason(-6) == "ended by signal 6"
    assert exit_reason(3) == "ended with exit code 3"


def test_differences_are_paired(fake_method, toy_set) -> None:
    found = compare("none,fake", [toy_set], isolate=False)
    (change,) = found.differences("toy", "mAP").values()
    # The fake method ranks as plain search does: no query differs.
    assert (change.mean, change.low, change.high) == (0, 0, 0)
    assert "°" in render(difference_table(found), "md")


def test_layouts_of_the_paper(levels_set) -> None:
    other = replace(levels_set, name="other")
    table = comparison_table(compare("none", [levels_set, other], isolate=False))
    # Instance retrieval: levels above, sets below.
    assert [group for group, _ in table.groups()] == ["Easy", "Medium", "Hard", "time"]
    assert [column.name for column in table.columns[:2]] == ["levels", "other"]
    # One set, or re-identification: sets above, metrics below.
    single = comparison_table(compare("none", [levels_set], isolate=False))
    assert single.groups() == [("levels", 4)]


def test_what_is_not_told_apart_from_the_best_is_marked(toy_set) -> None:
    found = compare("none,cas(k1=10,k2=4),cas(k1=11,k2=4)", [toy_set], isolate=False)
    table = comparison_table(found)
    marks = {row.label: row.marks[0] for row in table.rows}
    values = {row.label: row.values[0] for row in table.rows}
    best = max(values, key=values.get)
    assert marks[best] == ""
    assert marks["none"] == ""  # far below
    assert best != "none"


def test_a_cut_ranking_is_said(fake_method, toy_set, monkeypatch) -> None:
    monkeypatch.setattr(cells_module, "MAX_ENTRIES", 100)
    found = compare("none", [toy_set], isolate=False)
    assert found.get("none", "toy").missing > 0
    assert "the ranking was cut" in render(comparison_table(found), "md")


def test_what_was_chosen_is_kept_and_told(toy_set, tmp_path) -> None:
    tuning = kinrank.tune(toy_set.query.features, toy_set.gallery.features)
    expected = toy_set.evaluate(
        tuning.make().rerank(toy_set.query.features, toy_set.gallery.features)
    )
    for _ in range(2):  # the second time from its file
        found = compare("none,cas(params=auto)", [toy_set], isolate=False, work=tmp_path)
        cell = found.get("cas(params=auto)", "toy")
        assert cell.chosen == {"chosen": tuning.call, **tuning.chosen.sentences()}
        assert cell.chosen["geodesic"] == tuning.reasons["geodesic"]
        assert cell.summary["mAP"] == expected.summary()["mAP"]
        assert found.get("none", "toy").chosen == {}
    assert f"cas(params=auto) on toy: {tuning.call}, chosen" in comparison_table(found).notes[-1]


def test_ablations_vary_parameters_that_are_given(toy_set) -> None:
    with pytest.raises(InvalidInputError, match="its own parameters to be varied, got cas"):
        ablate([toy_set], method="cas(params=auto)")


def test_time_is_estimated_from_two_samples(monkeypatch) -> None:
    sizes = []

    def timed(spec, data, *, threads=None):
        sizes.append(len(data.query) + len(data.gallery))
        return None, {"seconds": (sizes[-1] / 1000) ** 1.5}

    monkeypatch.setattr(cells_module, "timed_ranking", timed)
    data = datasets.toy(n_classes=10, per_class=800, n_queries=400)
    found = cells_module.estimate_seconds(parse_method("none"), data)
    n = len(data.query) + len(data.gallery)
    assert found == pytest.approx((n / 1000) ** 1.5, rel=0.1)
    assert sizes == pytest.approx([1000, 2000], rel=0.05)


def test_metrics_that_are_asked_for(fake_method, toy_set, levels_set) -> None:
    both = compare("none,fake", [toy_set, levels_set], metrics="mAP,R1", isolate=False)
    assert both.headlines(toy_set.name) == ("mAP", "R1")
    assert both.headlines(levels_set.name) == ("mAP E", "mAP M", "mAP H")
    names = [column.name for column in comparison_table(both).columns if column.best]
    assert names == ["mAP", "R1", "Easy", "Medium", "Hard"]
    listed = compare("none", [toy_set], metrics=["R5"], isolate=False)
    assert listed.headlines(toy_set.name) == ("R5",)
    classes = replace(toy_set, protocol="retrieval")
    assert compare("none", [classes], metrics="R1", isolate=False).headlines(classes.name) == (
        "hit@1",
    )
    with pytest.raises(UnknownNameError, match="Did you mean"):
        compare("none", [toy_set], metrics="mAP,R1a", isolate=False)
    for odd in ([], 3, [3]):
        with pytest.raises(InvalidInputError, match="`metrics` must"):
            compare("none", [toy_set], metrics=odd, isolate=False)


def test_a_comparison_in_short_as_a_frame_and_as_latex(fake_method, toy_set) -> None:
    table = compare("none,fake", [toy_set], metrics="mAP", isolate=False)
    assert repr(table) == f"<Comparison of none, fake on {toy_set.name}>"
    cell = table.cells["fake", toy_set.name]
    assert repr(cell).startswith(f"<Measured fake on {toy_set.name}: mAP ")
    assert len(repr(cell)) < 120
    frame = table.to_pandas()
    assert frame["method"].tolist() == ["none", "fake"]
    assert frame["R1"].tolist()[1] == pytest.approx(cell.summary["R1"])
    assert r"\begin{table}[t]" in table.to_latex()
    assert "Baseline" in table.to_latex()
    wide = compare("none,fake", [toy_set], metrics="mAP,R1,R5,R10,mINP", isolate=False)
    assert r"\begin{table*}[t]" in wide.to_latex(two_columns=True)
    assert r"\end{table*}" in wide.to_latex(two_columns=True)
    assert r"\small" in table.to_latex(two_columns=True)


def test_a_data_set_in_short_as_a_frame_and_as_latex(toy_set) -> None:
    queries, gallery = len(toy_set.query), len(toy_set.gallery)
    assert repr(toy_set).startswith(f"<Dataset {toy_set.name}: {queries} queries, {gallery} in the")
    assert len(repr(toy_set)) < 120
    assert len(repr(toy_set.gallery)) < 80
    frame = toy_set.to_pandas()
    assert len(frame) == queries + gallery
    assert frame["label"].tolist()[-1] == toy_set.gallery.labels[-1]
    text = replace(toy_set, name="a_b").to_latex()
    assert rf"a\_b & {queries} & {gallery} & " in text
