"""What every registered method promises, whatever it computes."""

import inspect
import tracemalloc
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest

import kinrank
from kinrank.methods.base import Method
from kinrank.registry import method_class
from kinrank.testing import METHOD_CHECKS, check_ranking, sample_rows
from learned_models import untrained
from method_data import SMALL

METHODS = kinrank.methods()
NQ, NG = 12, 120
# Other ways through the methods, which keep the same promises.
VARIANTS = [
    *(("kreciprocal", {"dialect": d}) for d in ("torchreid", "layumi", "spcl")),
    ("kreciprocal", {"lambda_value": 0.0}),
    ("kreciprocal", {"lambda_value": 1.0}),
    *((name, {"dba": True}) for name in ("aqe", "aqewd", "alphaqe", "dqe")),
    *((name, {"dba": True, "order": "augmented"}) for name in ("aqe", "alphaqe", "dqe")),
    ("gnn", {"dialect": "zhang", "mix": 0.3}),
    ("gnn", {"k2": 1}),
    ("knn", {"dialect": "shen"}),
    ("cdm", {"steps": 3, "pool": 60}),
    ("fsr", {"rank": 30}),
    ("fsr", {"rank": 30, "residual": False}),
    ("eir", {"mode": "joint"}),
    ("egt", {"dialect": "layer6"}),
    ("sca", {"k1": 10, "k2": 5}),
    ("csa", {"m": 7}),
    ("lattqe", {"kqe": 3}),
    ("lattqe", {"dba": True}),
    ("lattqe", {"dba": True, "kdba": 3, "temperature": 2.0, "order": "augmented"}),
    ("gss", {"k1": 3, "kq": 9, "epochs": 2, "batch": 40}),
]
INDUCTIVE = [name for name in METHODS if hasattr(method_class(name), "fit") and name != "cas"]


def make(name, width=16, **params):
    return method_class(name)(**{**SMALL.get(name, {}), **untrained(name, width), **params})


@pytest.fixture(scope="module")
def sets():
    return sample_rows()


@pytest.mark.parametrize("check", METHOD_CHECKS)
@pytest.mark.parametrize("name", METHODS)
def test_what_is_checked_of_every_method(name, check):
    """The checks that users run on classes of their own."""
    METHOD_CHECKS[check](partial(make, name))


@pytest.mark.parametrize(("name", "params"), VARIANTS)
def test_variants_keep_the_promises(sets, name, params):
    method = make(name, **params)
    whole = method.rerank(*sets, threads=1)
    check_ranking(whole, NQ, NG, NG)
    for k, threads, run in ((10, 3, None), (40, 2, kinrank.Run(block_size=5))):
        first = method.rerank(*sets, k, threads=threads, run=run)
        assert first.indices.tobytes() == whole.indices[:, :k].tobytes()
        assert first.distances.tobytes() == whole.distances[:, :k].tobytes()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_takes_a_metric(sets, name):
    queries, gallery = sets
    cosine = make(name, metric="cosine").rerank(queries, gallery, 10)
    longer = make(name, metric="cosine").rerank(queries, 2 * gallery, 10)
    np.testing.assert_array_equal(cosine.indices, longer.indices)
    try:
        euclidean = make(name, metric="euclidean").rerank(queries, gallery, 10)
    except kinrank.InvalidInputError as error:
        assert "`metric` must be 'cosine' for this method" in str(error)  # noqa: PT017
        assert make(name).metric == "cosine"
    else:
        assert (euclidean.indices != cosine.indices).any()
    with pytest.raises(kinrank.KinrankError, match="`metric` must be"):
        make(name, metric="manhattan")


@pytest.mark.parametrize("name", METHODS)
def test_parameters_are_checked_documented_and_frozen(name):
    cls = method_class(name)
    text = f"{cls.__doc__} {Method.__doc__}"  # what all methods have is said once
    for field in fields(cls):
        assert field.metadata.get("help"), field.name
        assert field.name in text, field.name
        if field.type in ("int", "float"):
            with pytest.raises(kinrank.InvalidInputError, match=f"`{field.name}` must be"):
                replace(make(name), **{field.name: -7 if field.type == "int" else np.nan})
    with pytest.raises(kinrank.UnknownNameError, match="parameter of"):
        kinrank.rerank([[1.0]], [[1.0]], name, nonsense=1)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::kinrank.KinrankWarning")
def test_sizes_have_a_top_and_the_top_is_cut_to_the_rows(sets, name):
    tops = {"steps": 1000, "epochs": 100_000}
    for field in fields(method_class(name)):
        if not str(field.type).startswith("int") or field.name == "seed":
            continue
        top = tops.get(field.name, 2**31 - 1)
        for huge in (top + 1, 10**30):
            with pytest.raises(
                kinrank.InvalidInputError, match=f"`{field.name}` must be .* between 1 and {top}"
            ):
                make(name, **{field.name: huge})
        if field.name not in tops:
            with suppress(kinrank.InvalidInputError):  # k2 above k1, or above that of the training
                largest = make(name, **{field.name: top})
                check_ranking(largest.rerank(*sets, 10), NQ, 10, NG)


@pytest.mark.parametrize("name", METHODS)
def test_cost_and_source_are_documented(name):
    cls = method_class(name)
    text = " ".join(cls.__doc__.split())
    assert "Time O(" in text
    assert "emory O(" in text
    assert "istances" in text
    module = inspect.getdoc(inspect.getmodule(cls))
    assert any(str(year) in module for year in range(2003, 2027)), "the publication"


@pytest.mark.parametrize("name", METHODS)
def test_no_square_array(name):
    rng = np.random.default_rng(0)
    n = 6000
    rows = rng.normal(size=(n, 4)).astype(np.float32)
    make(name, 4).rerank(rows[:3], rows[3:200], 10)  # compiled before memory is watched
    tracemalloc.start()
    try:
        make(name, 4).rerank(rows[:3], rows[3:], 10)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * n * n  # bytes of one n x n float32 array


@pytest.mark.parametrize("name", INDUCTIVE)
def test_fitted_methods_answer_each_query_alone(sets, name):
    queries, gallery = sets
    fitted = make(name).fit(gallery)
    expected = make(name).rerank(queries, gallery, 15)
    together = fitted.search(queries, 15)
    np.testing.assert_array_equal(together.indices, expected.indices)
    np.testing.assert_array_equal(together.distances, expected.distances)
    alone = [fitted.search(queries[q : q + 1], 15) for q in range(3)]
    for q, ranking in enumerate(alone):
        np.testing.assert_array_equal(ranking.indices[0], expected.indices[q])
    assert len(fitted) == NG
    assert fitted.search(queries[:1]).k == NG
    with pytest.raises(kinrank.InvalidInputError, match="as many columns as the gallery"):
        fitted.search(queries[:, :3])


def test_the_inductive_methods_can_be_fitted():
    named = {"alphaqe", "aqe", "aqewd", "dfs", "dqe", "egt", "eir", "fsr", "sg"}
    assert named <= set(INDUCTIVE)


def test_all_methods_of_the_paper_are_there():
    assert set(METHODS) >= {
        "alphaqe", "aqe", "aqewd", "cas", "cdm", "dfs", "dqe", "ecn", "egt", "eir", "fsr", "gnn",
        "csa", "gss", "knn", "kreciprocal", "lattqe", "manifold", "rdp", "sca", "sg", "ssr", "stml",
    }  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_parameters_are_refused_in_one_voice(name):
    cls = method_class(name)
    later = {"weights", "device", "regularizer"}  # looked at when they are used
    for field in (one for one in fields(cls) if one.name not in later):
        for value in (np.array([3, 4]), object(), {}, "\0"):
            with pytest.raises(kinrank.KinrankError):
                cls(**{field.name: value})
