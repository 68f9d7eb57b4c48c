"""Conditions from outside: the command line, the service and its client."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

import kinrank
from kinrank import Client
from kinrank.cli.app import app
from kinrank.client import ServiceError
from kinrank.errors import InvalidInputError
from serve_process import serving
from struck import rows

NG = 200
CAMERAS = np.arange(NG) % 3
SPECIES = np.array(["lynx", "fox"])[np.arange(NG) % 2]
PRICES = np.linspace(0, 1, NG)
NIGHT = np.arange(NG) % 2 == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Files of vectors, attributes and an index with both."""
    root = tmp_path_factory.mktemp("conditions")
    np.save(root / "q.npy", rows(4, 5))
    np.save(root / "g.npy", rows(NG, 6))
    np.save(root / "cameras.npy", CAMERAS)
    np.save(root / "prices.npy", PRICES)
    np.save(root / "night.npy", NIGHT)
    (root / "species.txt").write_text("\n".join(SPECIES))
    run(
        "index", "build", "--gallery", root / "g.npy", "--out", root / "an.index", "--k1", 8,
        "--k2", 4, "--attribute", f"camera={root / 'cameras.npy'}",
        "--attribute", f"species={root / 'species.txt'}",
        "--attribute", f"price={root / 'prices.npy'}", "--attribute", f"night={root / 'night.npy'}",
    )  # fmt: skip
    run("index", "calibrate", root / "an.index")
    return root


@pytest.fixture(scope="module")
def index(made):
    return kinrank.open(made / "an.index")


def run(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    return result


def searched(made, *args):
    out = made / "r.npz"
    run("index", "search", made / "an.index", "--query", made / "q.npy", "--out", out, *args)
    return kinrank.Ranking.load(out)


def same(got, expected):
    np.testing.assert_array_equal(got.indices, expected.indices)
    np.testing.assert_array_equal(got.distances, expected.distances)


def test_search_by_command(made, index):
    queries = np.load(made / "q.npy")
    np.save(made / "own.npy", np.array([0, 1, 2, 0]))
    (made / "some.txt").write_text("3\n5\n8\n")
    (made / "of.txt").write_text("a\na\nb\nb\n")
    cases = [
        (("--where", "camera=1", "--where", "camera=2"), {"where": {"camera": [1, 2]}}),
        (("--where", "species=lynx"), {"where": {"species": "lynx"}}),
        (("--where", "price=0.2..0.5"), {"where": {"price": {"min": 0.2, "max": 0.5}}}),
        (("--where", "price=..0.5"), {"where": {"price": {"max": 0.5}}}),
        (
            ("--where", "camera=1..", "--where", "night=no"),
            {"where": {"camera": {"min": 1}, "night": False}},
        ),
        (("--where", "price=0...5"), {"where": {"price": {"min": 0, "max": 0.5}}}),
        (("--where", "price=-1..-.5"), {"where": {"price": {"min": -1, "max": -0.5}}}),
        (("--differ", f"camera={made / 'own.npy'}"), {"differ": {"camera": [0, 1, 2, 0]}}),
        (("--allowed", made / "some.txt"), {"allowed": [3, 5, 8]}),
        (("--exclude", made / "some.txt"), {"exclude": [3, 5, 8]}),
        (("--threshold", 0.4), {"threshold": 0.4}),
        (("--pair-false-match-rate", 0.01), {"pair_false_match_rate": 0.01}),
        (("--unknown-rate", 0.2), {"unknown_rate": 0.2}),
        (("--items", made / "of.txt"), {"items": list("aabb")}),
    ]
    for args, given in cases:
        same(searched(made, "-k", 6, *args), index.search(queries, 6, **given))
    np.save(made / "one.npy", queries[:1])
    args = ("index", "search", made / "an.index", "--query", made / "one.npy")
    printed = run(*args, "--right", 4, "--wrong", 7, "--json", "-k", 3).stdout
    expected = index.search(queries[0], 3, right=[4], wrong=[7])
    answer = json.loads(printed)
    assert [one["id"] for one in answer["results"]] == expected.ids[0].tolist()
    assert answer["presence"] == pytest.approx(expected.presence.tolist())
    assert re.search(r"presence [01]\.", run(*args).stdout)
    for where, words in [
        ("camera", "NAME=VALUE"),
        ("night=maybe", "must be true or false, got 'maybe'"),
        ("price=cheap", "a number or one range such as 0..0.5, got 'cheap'"),
        ("price=0..cheap", "got 'cheap'"),
        ("price=..", "must have 'min', 'max' or both"),
        ("price=2..1", "not above its 'max'"),
        ("colour=red", "colour"),
    ]:
        refused = run(*args, "--where", where, code=2)
        assert words in " ".join(refused.output.split())
    twice = run(*args, "--where", "price=0..1", "--where", "price=2", code=2)
    assert "got '0..1'" in " ".join(twice.output.split())


def test_rows_with_attributes_by_command(made, tmp_path):
    path = tmp_path / "an.index"
    path.write_bytes((made / "an.index").read_bytes())
    np.save(tmp_path / "new.npy", rows(2, 40))
    (tmp_path / "c.txt").write_text("7\n7\n")
    (tmp_path / "s.txt").write_text("owl\nowl\n")
    add = ("index", "add", path, "--vectors", tmp_path / "new.npy")
    assert "must have 'camera'" in run(*add, code=2).output
    np.save(tmp_path / "p.npy", [0.5, 0.5])
    np.save(tmp_path / "n.npy", [True, False])
    files = {"camera": "c.txt", "species": "s.txt", "price": "p.npy", "night": "n.npy"}
    for name, file in files.items():
        add = (*add, "--attribute", f"{name}={tmp_path / file}")
    run(*add)
    assert kinrank.open(path).attributes["species"][-1] == "owl"


def test_attributes_alone_by_command(made, tmp_path):
    path = tmp_path / "an.index"
    path.write_bytes((made / "an.index").read_bytes())
    (tmp_path / "p.txt").write_text("7\n8.5\n")
    (tmp_path / "ids.txt").write_text("3\n9\n")
    price = ("--attribute", f"price={tmp_path / 'p.txt'}")
    said = run("index", "update", path, 3, 9, *price, "--json").stdout
    assert json.loads(said)["updated"] == 2
    assert kinrank.open(path).attributes["price"][[3, 9, 4]].tolist() == [7, 8.5, PRICES[4]]
    run("index", "update", path, "--ids", tmp_path / "ids.txt", *price)
    for args, words in [
        ((3, 9), "`vectors` or `attributes` must be given"),
        ((3, *price), "one value per row (1), got 2"),
        ((3, NG, *price), "There is no row with the id 200"),
        (price, "Ids must be given"),
        ((3, "--ids", tmp_path / "ids.txt", *price), "Ids must be given"),
        (("x", "y", *price), "Ids must be integers"),
    ]:
        refused = run("index", "update", path, *args, code=2)
        assert words in " ".join(refused.output.split())


def test_attributes_alone_by_the_service(made, tmp_path):
    path = tmp_path / "an.index"
    path.write_bytes((made / "an.index").read_bytes())
    query = np.load(made / "q.npy")[0]
    with serving(path, "--writable") as server, Client(server.url) as client:
        before = client.search(query, 10)
        assert client.update([3, 9], attributes={"price": [7, 8.5], "species": ["elk"] * 2}) == NG
        got = client.search(query, 3, where={"price": {"min": 7}, "species": "elk"})
        assert sorted(got.ids[0]) == [-1, 3, 9]
        np.testing.assert_array_equal(client.search(query, 10).ids, before.ids)
        client.update(np.array([3]), attributes={"price": np.array([0.5])}, labels=["cat"])
        assert client.search(query, 3, where={"price": {"min": 7}}).ids[0].tolist() == [9, -1, -1]
        for call, status, words in (
            (lambda: client.update([3]), 422, "`vectors` must be given, unless"),
            (lambda: client.update([NG], attributes={"price": [1.0]}), 404, "200"),
            (lambda: client.update([3], attributes={"prize": [1.0]}), 422, "prize"),
            (lambda: client.update([3], attributes={"price": ["a"]}), 422, "must be numbers"),
            (lambda: client.update([3], attributes={"price": [1.0]}, labels=[]), 422, "labels"),
            (lambda: client.update(None, attributes={"price": [1.0]}), 422, "price"),
        ):
            with pytest.raises(ServiceError, match=words) as refused:
                call()
            assert refused.value.status == status
    opened = kinrank.open(path)
    assert opened.attributes["price"][[3, 9, 4]].tolist() == [0.5, 8.5, PRICES[4]]
    assert opened.ids.tolist() == list(range(NG))


def test_rerank_by_command(made):
    queries, gallery = np.load(made / "q.npy"), np.load(made / "g.npy")
    out = made / "rr.npz"
    base = ("rerank", "--query", made / "q.npy", "--gallery", made / "g.npy", "--out", out)
    base = (*base, "-k", 5, "--k1", 8, "--k2", 4)
    np.save(made / "mask.npy", CAMERAS == 1)
    np.save(made / "gq.npy", np.array([0, 1, 0, 1]))
    (made / "things.txt").write_text("1\n1\n2\n2\n")
    groups = ("--query-groups", made / "gq.npy", "--gallery-groups", made / "cameras.npy")
    cases = [
        (("--allowed", made / "mask.npy"), {"allowed": CAMERAS == 1}),
        (("--items", made / "things.txt"), {"items": [1, 1, 2, 2]}),
        (groups, {"groups": ([0, 1, 0, 1], CAMERAS)}),
    ]
    for args, given in cases:
        run(*base, *args)
        expected = kinrank.rerank(queries, gallery, k=5, k1=8, k2=4, **given)
        same(kinrank.Ranking.load(out), expected)
    run(*base, "--threshold", 0.3)
    same(
        kinrank.Ranking.load(out),
        kinrank.rerank(queries, gallery, k=5, k1=8, k2=4).within(0.3),
    )


def test_service_and_client(made, index):
    queries = np.load(made / "q.npy")
    with serving(made / "an.index") as server, Client(server.url) as client:
        assert client.info()["attributes"] == ["camera", "night", "price", "species"]
        cases = [
            {"allowed": [3, 5, 8]}, {"exclude": np.array([3, 5, 8])}, {"threshold": 0.4},
            {"where": {"camera": [1, 2], "species": "fox"}}, {"items": ["a", "a", "b", "b"]},
            {"differ": {"camera": np.array([0, 1, 2, 0])}}, {"pair_false_match_rate": 0.01},
            {"unknown_rate": 0.2},
            {"where": {"price": {"min": 0.2, "max": np.float32(0.5)}, "night": True}},
            {"where": {"camera": {"max": 1.5}, "species": {"min": "g"}}},
            {"where": {"camera": 1}, "differ": {"species": ["fox"] * 4}, "base": True},
        ]  # fmt: skip
        for given in cases:
            got, expected = client.search(queries, 6, **given), index.search(queries, 6, **given)
            np.testing.assert_array_equal(got.indices, expected.indices)
            np.testing.assert_allclose(got.distances, expected.distances, rtol=1e-6)
            assert (got.presence is None) == (expected.presence is None)
        got = client.search(queries[0], 5, right=[4, 9], wrong=[7])
        expected = index.search(queries[0], 5, right=[4, 9], wrong=[7])
        np.testing.assert_array_equal(got.ids, expected.ids)
        np.testing.assert_allclose(got.presence, expected.presence, rtol=1e-6)
        pool = index.vectors(np.arange(40))
        got = client.rerank(queries[0], pool, k=4, exclude=[1, 2])
        expected = kinrank.rerank_pool(queries[0], pool, k=4, exclude=[1, 2])
        np.testing.assert_array_equal(got.indices, expected.indices)
        for given, status, words in (
            ({"where": {"colour": 1}}, 422, "colour"),
            ({"right": [4], "wrong": [4]}, 422, "both"),
            ({"allowed": [NG]}, 404, "200"),
            ({"threshold": -1}, 422, "greater than or equal"),
            ({"wherever": {}}, 422, "wherever"),
            ({"where": {"price": {"low": 1}}}, 422, "low"),
            ({"where": {"price": {}}}, 422, "'min', 'max' or both"),
            ({"where": {"price": {"min": "a"}}}, 422, "a range of numbers"),
        ):
            with pytest.raises(ServiceError, match=words) as refused:
                client.search(queries[0], 5, **given)
            assert refused.value.status == status
        with pytest.raises(InvalidInputError, match="could be both"):
            client.search(queries[0], 5, where={"price": (0, 0.5)})


def test_rerank_with_parameters_that_are_chosen(tmp_path):
    data = kinrank.datasets.load("toy")
    np.save(tmp_path / "q.npy", data.query.features)
    np.save(tmp_path / "g.npy", data.gallery.features)
    files = ("--query", tmp_path / "q.npy", "--gallery", tmp_path / "g.npy")
    done = run("rerank", *files, "--params", "auto", "-k", 5, "--out", tmp_path / "r.npz", "--json")
    said, tuning = (
        json.loads(done.stdout),
        kinrank.tune(data.query.features, data.gallery.features),
    )
    assert said["chosen"] == tuning.reasons
    assert said["parameters"]["k1"] == tuning.params["k1"]
    expected = tuning.make().rerank(data.query.features, data.gallery.features, 5)
    np.testing.assert_array_equal(
        kinrank.Ranking.load(tmp_path / "r.npz").indices, expected.indices
    )
