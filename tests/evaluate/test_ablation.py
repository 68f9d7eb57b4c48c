import numpy as np
import pytest

from kinrank import InvalidInputError, UnknownNameError
from kinrank.cli import evaluate_many
from kinrank.evaluate.ablation import STUDIES, VALUES, ablate, make_studies
from kinrank.evaluate.spec import MethodSpec, parse_method
from kinrank.report.formats import render

BASE = "cas(k1=8,k2=3)"


def labels(study):
    return [variant.label for variant in study.variants]


def test_the_studies_are_those_of_the_paper() -> None:
    studies = {study.key: study for study in make_studies()}
    assert labels(studies["bsd"]) == [
        "Baseline", "OSM+k-nn", "SSM+k-nn", "BSD+k-nn", "OSM+k-recip", "SSM+k-recip", "BSD+k-recip",
    ]  # fmt: skip
    assert labels(studies["nss"]) == ["Baseline", "w/o NSS", "w/ AQE", "w/ NSS"]
    assert labels(studies["distance"])[-1] == "JS Divergence"
    assert labels(studies["k2"]) == [str(n) for n in range(1, 11)]
    assert labels(studies["omega"])[:3] == ["0.01", "0.05", "0.1"]
    assert set(VALUES) < set(STUDIES)
    assert ", ".join(STUDIES) == evaluate_many.STUDIES


def test_variations_start_from_the_given_method() -> None:
    (study,) = make_studies(["k1"], parse_method("cas(omega=0.1)"), {"k1": [9]})
    spec = next(v.spec for v in study.variants if v.spec.name == "cas")
    assert dict(spec.params) == {"omega": 0.1, "k1": 9}
    assert study.base == "20"


def test_all_variants_can_be_made() -> None:
    for study in make_studies(base=parse_method("cas(k1=30)")):
        for variant in study.variants:
            if variant.spec.params.get("k1", 30) >= 10:
                variant.spec.build()


def test_tables(toy_set, tmp_path) -> None:
    found = ablate(
        [toy_set],
        method=BASE,
        studies=["bsd", "nss", "distance", "omega"],
        values={"omega": [0.1, 1.0]},
        work=tmp_path,
    )
    tables = found.tables()
    assert [row.label for row in tables["distance"].rows][:2] == ["Baseline", "Euclidean"]
    assert "Baseline here ranks by the last similarity" in tables["distance"].notes[0]
    assert [column.name for column in tables["bsd"].columns] == ["mAP", "R1", "mINP"]
    assert len(repr(found)) < 80
    assert len(repr(found.studies[0])) < 80
    assert tables["bsd"].bold == "sections"
    # Nothing but the original distance is the first ranking.
    omega = tables["omega"]
    assert [column.name for column in omega.columns] == ["0.1", "1"]
    baseline = tables["bsd"].rows[0].values
    np.testing.assert_allclose([row.values[1] for row in omega.rows], baseline, atol=1e-9)
    for table in tables.values():
        assert render(table, "tex").count("{") == render(table, "tex").count("}")


def test_a_value_that_cannot_be_is_a_gap(toy_set) -> None:
    found = ablate([toy_set], method="cas(k1=4,k2=2)", studies=["k2"], values={"k2": [2, 50]})
    table = found.tables()["k2"]
    assert table.rows[0].values[0] is not None
    assert table.rows[0].values[1] is None
    assert "failed: `k2` must be at most k1" in table.notes[0]


def test_latency_has_time_memory_and_complexity() -> None:
    base = parse_method(BASE)
    (study,) = make_studies(["latency"], base)
    assert labels(study)[0] == "none"
    assert labels(study)[-1] == base.label
    assert parse_method("cas").complexity.startswith("O(")
    assert parse_method("none").complexity.startswith("O(")


def test_several_sets_stand_below_their_metric(levels_set) -> None:
    from dataclasses import replace

    sets = [levels_set, replace(levels_set, name="other")]
    table = ablate(sets, method="cas(k1=5,k2=2)", studies=["nss"]).tables()["nss"]
    assert table.groups() == [("Medium", 2), ("Hard", 2)]


def test_what_is_refused(toy_set) -> None:
    with pytest.raises(UnknownNameError, match="study"):
        ablate([toy_set], studies=["k9"])
    with pytest.raises(UnknownNameError, match="values"):
        ablate([toy_set], values={"k9": [1]})
    with pytest.raises(InvalidInputError, match="`sets` must have"):
        ablate([])
    assert MethodSpec("cas").label == "cas"
