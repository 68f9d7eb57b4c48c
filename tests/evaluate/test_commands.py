"""`kinrank eval`, `compare`, `ablate` and `report`, as people run them."""

import csv
import json

import numpy as np
import pytest

import kinrank
from cli_helpers import run
from kinrank import datasets
from kinrank.datasets.features import save_features


@pytest.fixture
def folder(tmp_path, toy_set):
    save_features(toy_set, tmp_path / "set")
    return tmp_path / "set"


def done(*args):
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_eval_of_a_method(folder, toy_set) -> None:
    text = done("eval", "--data", folder, "--method", "cas(k1=8,k2=3)")
    method = kinrank.CAS(k1=8, k2=3)
    ranking = method.rerank(toy_set.query.features, toy_set.gallery.features)
    assert f"mAP {100 * toy_set.evaluate(ranking)['mAP']:15.2f}" in text
    assert text.startswith("cas(k1=8, k2=3) on toy, ")


def test_eval_tells_what_was_chosen(folder) -> None:
    asked = ("eval", "--data", folder, "--method", "cas(params=auto)")
    assert "\ngeodesic      Paths from neighbour to neighbour" in done(*asked)
    said = json.loads(done(*asked, "--json"))["chosen"]
    assert list(said)[:3] == ["chosen", "verdict", "whiten"]
    assert said["verdict"].startswith("re-ranking will")


def test_eval_of_single_files_and_of_a_saved_ranking(folder, toy_set, tmp_path) -> None:
    files = [f"--{name.replace('_', '-')}={folder / name}.npy" for name in
             ("query", "gallery", "query_ids", "gallery_ids")]  # fmt: skip
    plain = json.loads(done("eval", *files, "--method", "none", "--json"))
    ranking = kinrank.CAS(omega=1).rerank(toy_set.query.features, toy_set.gallery.features)
    ranking.save(tmp_path / "ranking.npz")
    saved = json.loads(done("eval", *files, "--ranking", tmp_path / "ranking.npz", "--json"))
    assert saved["metrics"] == pytest.approx(plain["metrics"])
    assert saved["seconds"] is None


def test_eval_writes_each_query(folder, tmp_path, toy_set) -> None:
    done("eval", "--data", folder, "--method", "none", "--per-query", tmp_path / "q.csv")
    rows = list(csv.DictReader((tmp_path / "q.csv").read_text().splitlines()))
    assert len(rows) == len(toy_set.query)
    assert 0 <= float(rows[0]["mAP"]) <= 1


def test_eval_over_a_pool(folder) -> None:
    whole = json.loads(done("eval", "--data", folder, "--method", "cas(k1=8,k2=3)", "--json"))
    pooled = json.loads(
        done("eval", "--data", folder, "--method", "cas(k1=8,k2=3)", "--pool", "30", "--json")
    )
    assert pooled["method"] == "cas(k1=8, k2=3, pool=30)"
    assert pooled["metrics"]["mAP"] != whole["metrics"]["mAP"]
    assert pooled["missing"] == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["eval"], "A data set must be given: --data, or --query and --gallery"),
        (["compare", "--query", "q.npy"], "No file of vectors was given for the gallery"),
        (["eval", "--data", "toy", "--data", "digits"], "measures one data set, got 2"),
        (["eval", "--data", "{set}", "--gnd", "x.json"], "--gnd cannot be combined with --data"),
        (["eval", "--data", "{set}", "--query", "x.npy"], "go together: give both or neither"),
        (["eval", "--data", "{set}", "--method", "cass"], "Did you mean 'cas'"),
        (["eval", "--data", "{set},format=odd"], "`format` must be one of"),
        (["eval", "--data", "{set},odd"], "must be PATH,key=value"),
        (["eval", "--data", "absent"], "No such data set"),
        (["compare", "--data", "{set}", "--out", "table.pdf"], "must end in .csv"),
        (["compare", "--data", "{set}", "--out", "absent/table.md"], "there is no folder"),
        (["ablate", "--data", "{set}", "--studies", "k9"], "`study` must be one of"),
        (["ablate", "--data", "{set}", "--values", "k1=a"], "must be like k1=10,20,40"),
        (["report", "--data", "{set}", "--focus", "x", "--methods", "none"], "`focus` must be"),
    ],
)
def test_what_is_refused_is_one_line(folder, tmp_path, monkeypatch, args, message) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*(arg.format(set=folder) for arg in args))
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_compare_writes_all_forms_and_goes_on(folder, tmp_path) -> None:
    outs = [tmp_path / f"table.{form}" for form in ("csv", "md", "tex", "html")]
    args = ["compare", "--data", f"{folder},name=arcs", "--methods", "none,cas(k1=8,k2=3)"]
    args += ["--pool", "40", "--work", tmp_path / "work", "--no-isolate"]
    for out in outs:
        args += ["--out", out]
    first = run(*args)
    assert first.exit_code == 0, first.output
    assert "| cas(k1=8, k2=3, pool=40) |" in first.stdout
    assert "Difference to none" in first.stdout
    assert first.stderr.splitlines()[-1].startswith("[3/3] cas(k1=8, k2=3, pool=40) on arcs: mAP")
    assert all(out.stat().st_size > 100 for out in outs)
    assert "<!doctype html>" in outs[3].read_text(encoding="utf-8")
    assert outs[2].read_text(encoding="utf-8").count(r"\toprule") == 2
    assert outs[1].read_text(encoding="utf-8") == first.stdout[:-1]
    # The same figures, times and all: nothing was run again.
    assert run(*args).stdout == first.stdout


def test_compare_of_single_files_with_figures(folder, tmp_path) -> None:
    names = ("query", "gallery", "query_ids", "gallery_ids")
    files = [f"--{name.replace('_', '-')}={folder / name}.npy" for name in names]
    text = done("compare", *files, "--methods", "none,cas(k1=8,k2=3)", "--no-isolate",
                "--work", tmp_path / "work", "--figures", tmp_path / "figures",
                "--metrics", "mAP,R5", "--two-columns")  # fmt: skip
    assert "| features R5 |" in text
    assert "R1" not in text
    assert "| features mAP |" in text
    written = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"features-mAP.pdf", "features-mAP.svg", "features-time.pdf"} <= written
    assert (tmp_path / "figures" / "features-mAP.pdf").read_bytes().startswith(b"%PDF")


def test_compare_says_what_failed_and_how_it_ended(folder, tmp_path, monkeypatch) -> None:
    from kinrank import registry

    monkeypatch.setitem(registry._METHODS, "broken", "fakes:Broken")
    result = run("compare", "--data", folder, "--methods", "none,broken",
                 "--work", tmp_path, "--no-isolate")  # fmt: skip
    assert result.exit_code == 1
    assert "broken on toy failed: it cannot" in result.stdout


def test_ablate_writes_tables_and_plots(folder, tmp_path) -> None:
    out = tmp_path / "ablation"
    text = done("ablate", "--data", folder, "--method", "cas(k1=8,k2=3)", "--studies", "nss,k2",
                "--values", "k2=2,3", "--work", tmp_path / "work", "--out", out,
                "--metrics", "R1", "--two-columns")  # fmt: skip
    assert "Effect of k₂" in text
    assert "| Baseline | " in text
    assert "| toy R1 | " in text
    assert "mAP" not in text
    names = {
        f"{key}.{form}" for key in ("nss", "k2") for form in ("csv", "md", "tex", "pdf", "svg")
    }
    assert {path.name for path in out.iterdir()} == names


def test_report(folder, tmp_path) -> None:
    out = tmp_path / "report.html"
    result = run("report", "--data", folder, "--methods", "none,cas(k1=8,k2=3)",
                 "--work", tmp_path / "work", "--out", out)  # fmt: skip
    assert result.exit_code == 0, result.output
    text = out.read_text(encoding="utf-8")
    assert "Peak memory" in text or "peak memory" in text
    assert "toy: each query" in text


def test_data_words(folder, tmp_path) -> None:
    assert datasets.load_spec(f"{folder},name=x, unit").name == "x"
    unit = datasets.load_spec(f"{folder},unit=true")
    np.testing.assert_allclose(np.linalg.norm(unit.gallery.features, axis=1), 1, atol=1e-6)
    again = datasets.load(**unit.source)
    np.testing.assert_array_equal(again.gallery.features, unit.gallery.features)
    np.save(tmp_path / "more.npy", np.ones((5, 8), np.float32))
    more = datasets.load_spec(f"{folder},distractors={tmp_path / 'more.npy'}")
    assert len(more.gallery) == len(unit.gallery) + 5
