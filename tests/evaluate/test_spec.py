import pytest

from kinrank import InvalidInputError, KinrankError, UnknownNameError, registry
from kinrank.evaluate.search import Plain, Pooled
from kinrank.evaluate.spec import left_out, literal, parse_method, parse_methods


def test_one_method(fake_method) -> None:
    spec = parse_method(
        " fake( k1 = 7, sigma=0.25,clusters=reciprocal, symmetric=false, keep=None)"
    )
    assert dict(spec.params) == {
        "k1": 7,
        "sigma": 0.25,
        "clusters": "reciprocal",
        "symmetric": False,
        "keep": None,
    }
    assert spec.build().sigma == 0.25
    assert spec.label.startswith("fake(k1=7, sigma=0.25")
    assert parse_method(spec.label) == spec


def test_none_and_pools(fake_method) -> None:
    assert isinstance(parse_method("none").build(), Plain)
    assert parse_method("none(metric=cosine)").build().metric == "cosine"
    pooled = parse_method("fake(pool=50,k1=3)")
    assert (pooled.pool, dict(pooled.params)) == (50, {"k1": 3})
    assert isinstance(pooled.build(), Pooled)
    assert pooled.label == "fake(k1=3, pool=50)"


def test_lists(fake_method) -> None:
    labels = [s.label for s in parse_methods("none,fake(k1=3,sigma=1); fake,none")]
    assert labels == ["none", "fake(k1=3, sigma=1)", "fake"]
    everything = [spec.label for spec in parse_methods("all")]
    assert everything == ["none", *registry.ready_methods()]
    assert set(registry.methods()) - set(everything) == {"csa", "lattqe", "ssr"}


def test_parameters_that_are_chosen() -> None:
    spec = parse_method("cas(params=auto, k1=30)")
    assert (spec.auto, dict(spec.params), spec.label) == (
        True,
        {"k1": 30},
        "cas(k1=30, params=auto)",
    )
    assert parse_method(spec.label) == spec
    assert spec.identity() != parse_method("cas(k1=30)").identity()
    assert (
        parse_method("cas(k1=20,params=auto)").identity()
        != parse_method("cas(params=auto)").identity()
    )  # one that is given is not chosen, though it has its default
    with pytest.raises(UnknownNameError, match="`params` must be one of auto, got 'best'"):
        parse_method("cas(params=best)")
    for text in ("none(params=auto)", "dfs(params=auto)"):
        with pytest.raises(InvalidInputError, match="must be one that can be tuned"):
            parse_method(text)


def test_identity_has_the_defaults(fake_method) -> None:
    assert parse_method("fake").identity()["params"]["sigma"] == 0.5
    assert parse_method("fake").identity() == parse_method("fake(k1=20)").identity()
    assert parse_method("fake").identity() != parse_method("fake(pool=9)").identity()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fake(", "A bracket is open or closed once too often"),
        ("fake)x(", "must be like cas"),
        ("fake(k1)", "must be like k1=60"),
        ("fake(kk=1)", "kk"),
        ("fake(k1=0)", "`k1` must be an integer"),
        ("none(k1=3)", "none: "),
        ("fakes", "Did you mean 'fake'"),
        ("fake(pool=0)", "`pool` must be an integer"),
        ("", "must name at least one method"),
    ],
)
def test_what_is_refused(fake_method, text, message) -> None:
    with pytest.raises(KinrankError, match=message.replace("(", r"\(")):
        parse_methods(text)
    assert issubclass(UnknownNameError, KinrankError)
    assert issubclass(InvalidInputError, KinrankError)


def test_literals_are_data_only() -> None:
    assert literal("1e-3") == 0.001
    assert literal("__import__('os')") == "__import__('os')"


def test_what_all_leaves_out_is_named() -> None:
    assert {"csa", "lattqe", "ssr"} <= set(left_out("none,all"))
    assert left_out("none,cas") == {}
