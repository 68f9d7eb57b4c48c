"""Options are made from the fields of a method."""

from dataclasses import fields

import click
import pytest

import kinrank
from cli_helpers import parameters, run
from fakes import Fake
from kinrank.cli.options import RESERVED, method_options, read_hint
from kinrank.registry import method_class
from learned_models import untrained


def test_without_options_the_defaults_are_the_fields(files):
    assert parameters(run(*files, "--json")) == vars(Fake())


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        ("--k1 3", "k1", 3),
        ("--sigma 2", "sigma", 2.0),
        ("--keep 9", "keep", 9),
        ("--mu 0.25", "mu", 0.25),
        ("--no-symmetric", "symmetric", False),
        ("--guide", "guide", True),
        ("--no-guide", "guide", False),
        ("--clusters reciprocal", "clusters", "reciprocal"),
        ("--smoothing none", "smoothing", None),
        ("--smoothing aqe", "smoothing", "aqe"),
        ("--start none", "start", "none"),
        ("--solver dense", "solver", "dense"),
        ("--fusion none", "fusion", None),
        ("--fusion euclidean", "fusion", "euclidean"),
        ("--limit none", "limit", None),
        ("--limit 8", "limit", 8),
        ("--regularizer graph", "regularizer", "graph"),
        ("--geodesic-k 4", "geodesic_k", 4),
        ("--geodesic-k all", "geodesic_k", "all"),
    ],
)
def test_options_of_every_type(files, option, name, value):
    assert parameters(run(*files, *option.split(), "--json")) == {**vars(Fake()), name: value}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--k1 x", "'--k1'"),
        ("--sigma x", "'--sigma'"),
        ("--clusters best", "must be one of knn, reciprocal, got 'best'"),
        ("--geodesic-k 2.5", "must be one of all, an integer, got '2.5'"),
        ("--regularizer 3", "must be one of identity, graph, got '3'"),
        ("--matrix 3", "--matrix"),
        ("--solver none", "must be one of local, dense, got 'none'"),
        ("--keep none", "'--keep'"),
    ],
)
def test_options_that_are_refused(files, option, message):
    result = run(*files, *option.split())
    assert result.exit_code == 2
    assert message in result.stderr


def test_help_lists_the_parameters_of_the_method(fake_method):
    text = " ".join(run("rerank", "--method", "fake", "--help").stdout.split())
    assert "Parameters of fake:" in text
    assert "--k1 INTEGER Size of the neighbourhood. [default: 20]" in text
    assert "--keep INTEGER Entries kept. [default: from the others]" in text
    assert "--symmetric / --no-symmetric Use both directions. [default: on]" in text
    assert "--smoothing neighbors|aqe|none [default: neighbors]" in text
    assert "--geodesic-k all|INTEGER" in text
    assert "--regularizer identity|graph [default: identity]" in text
    assert "matrix" not in text
    assert (
        run("rerank", "--method=fake", "--help").stdout
        == run("rerank", "--help", "--method", "fake").stdout
    )


@pytest.mark.parametrize("hint", [str, list[int], bool | int, object])
def test_hints_that_make_no_option_are_a_mistake_of_the_method(hint):
    with pytest.raises(TypeError, match="no option can be made"):
        read_hint(hint)


@pytest.mark.parametrize("name", kinrank.methods())
def test_every_registered_method_has_documented_options(name):
    cls = method_class(name)
    assert not RESERVED & {field.name for field in fields(cls)}
    for option in method_options(cls):
        assert isinstance(option, click.Option)
        assert option.help
        assert not option.help.startswith("["), f"{name}.{option.name} has no metadata help"


def typed(parameters):
    """The options that ask for these parameters."""
    for name, value in parameters.items():
        dashed = name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{dashed}" if value else f"--no-{dashed}"
        else:
            yield from (f"--{dashed}", "none" if value is None else str(value))


@pytest.mark.parametrize("name", kinrank.methods())
def test_what_a_run_used_can_be_typed_and_gives_the_same(files, tmp_path, name):
    args = [*files, "--method", name, "--json", *typed(untrained(name, 6))]
    used = parameters(run(*args))
    content = (tmp_path / "ranking.npz").read_bytes()
    offered = {option.name for option in method_options(method_class(name))}
    # None that stays None is what the weights say; it is left out, not typed.
    left = {field.name for field in fields(method_class(name)) if field.default is None}
    known = {key: used[key] for key in used if used[key] is not None or key not in left}
    again = run(*args, *typed({key: value for key, value in known.items() if key in offered}))
    assert parameters(again) == used
    assert (tmp_path / "ranking.npz").read_bytes() == content
