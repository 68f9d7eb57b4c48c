"""What products call, and what is refused."""

import json
import socket
import sys
import time
from urllib.parse import quote

import numpy as np
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

import kinrank
from cli_helpers import run
from index_data import QUERIES, ROWS
from kinrank.client import ServiceError
from kinrank.serve import Settings
from kinrank.serve.metrics import BOUNDS, Metrics
from kinrank.serve.problems import install
from serve_process import ask, npy, serving

NPY = "application/x-npy"


def problem(answer, status, kind):
    """The answer is a problem of that kind."""
    got, headers, content = answer
    assert got == status, content
    assert headers["content-type"] == "application/problem+json"
    assert content["type"] == f"urn:kinrank:problem:{kind}"
    assert content["status"] == status
    assert content["title"]
    assert content["detail"]
    return content["detail"]


def test_search_is_that_of_the_index(pictures, folder):
    index = kinrank.open(folder / "an.index")
    with kinrank.Client(pictures.url) as client:
        for base in (False, True):
            expected, found = (
                index.search(QUERIES, 7, base=base),
                client.search(QUERIES, 7, base=base),
            )
            np.testing.assert_array_equal(found.ids, expected.ids)
            np.testing.assert_array_equal(found.indices, expected.indices)
            np.testing.assert_array_equal(found.distances, expected.distances)
        one = client.search(QUERIES[0], 3)
        assert one.ids.tolist() == index.search(QUERIES[:1], 3).ids.tolist()
    for sent in ({"vector": QUERIES[0].tolist()}, {"vectors": QUERIES[:1].tolist()}):
        status, _, content = ask(pictures, "POST", "/v1/search", {**sent, "k": 3})
        assert status == 200
        assert content["ids"] == one.ids.tolist()


def test_rerank_is_that_of_the_library(pictures):
    expected = kinrank.rerank_pool(QUERIES[0], ROWS[:80], k=9, k1=10, k2=4)
    with kinrank.Client(pictures.url) as client:
        found = client.rerank(QUERIES[0], ROWS[:80], k=9, k1=10, k2=4)
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_allclose(found.distances, expected.distances)
        named = client.rerank(QUERIES[0], ROWS[:3], ids=["a", "b", "c"], method="knn", k=2)
        assert set(named.ids[0]) <= {"a", "b", "c"}
    body = npy(np.concatenate([QUERIES[:1], ROWS[:80]]))
    status, _, content = ask(pictures, "POST", "/v1/rerank?k=4", body, Content_Type=NPY)
    assert (status, len(content["ids"][0])) == (200, 4)


def test_neighbours_and_explanations(pictures, folder):
    index = kinrank.open(folder / "an.index")
    with kinrank.Client(pictures.url) as client:
        for one in ("row 3", "sub/red.png"):
            assert client.neighbors(one, 5).ids.tolist() == index.neighbors(one, 5).ids.tolist()
        expected = index.explain(QUERIES[0], "row 3")
        found = client.explain("row 3", vector=QUERIES[0])
        assert found["distance"] == pytest.approx(expected.distance, abs=1e-6)
        assert found["text"].startswith("'row 3':")
        assert client.explain("row 3", query="row 4")["members"]
        with pytest.raises(ServiceError, match="no row with the id 'nobody'") as raised:
            client.neighbors("nobody")
        assert (raised.value.status, raised.value.kind) == (404, "unknown-id")


def test_state(pictures):
    with kinrank.Client(pictures.url) as client:
        assert client.health() == {
            "status": "ok", "version": kinrank.__version__, "rows": len(ROWS),
        }  # fmt: skip
        info = client.info()
    assert (info["labels"], info["images"], info["model"], info["writable"]) == (
        True, True, None, False,
    )  # fmt: skip


def samples(text):
    """name -> {labels: value} of Prometheus' text."""
    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            values.setdefault(sample.name, {})[labels] = sample.value
    return values


def test_prometheus_reads_counts_times_and_sizes(pictures):
    for _ in range(2):
        ask(pictures, "POST", "/v1/search", {"vectors": QUERIES[:3].tolist()})
    before = samples(ask(pictures, "GET", "/metrics")[2].decode())
    ask(pictures, "POST", "/v1/search", {"vectors": QUERIES[:3].tolist()})
    ask(pictures, "POST", "/v1/search", {"vector": []})
    _, headers, text = ask(pictures, "GET", "/metrics")
    after = samples(text.decode())
    assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert after["kinrank_index_rows"] == {(): len(ROWS)}
    assert after["kinrank_index_columns"] == {(): ROWS.shape[1]}
    assert after["kinrank_index_bytes"][()] > 0
    assert after["kinrank_requests_running"] == {(): 1}  # this one
    assert after["kinrank_queries_total"][()] == before["kinrank_queries_total"][()] + 3

    def searches(values, status):
        key = (("method", "POST"), ("route", "/v1/search"), ("status", status))
        return values["kinrank_requests_total"].get(key, 0)

    assert searches(after, "200") == searches(before, "200") + 1
    assert searches(after, "422") == searches(before, "422") + 1
    route = ("route", "/v1/search")
    counted = after["kinrank_request_seconds_count"][(route,)]
    # Other tests of the same service get other answers too, such as 503.
    answered = after["kinrank_requests_total"].items()
    assert counted == sum(value for labels, value in answered if route in labels)
    assert after["kinrank_request_seconds_bucket"][("le", "+Inf"), route] == counted
    bounds = {float(dict(key)["le"]) for key in after["kinrank_request_seconds_bucket"]}
    assert bounds == {*BOUNDS, float("inf")}


def test_services_in_one_process_count_apart():
    first = Metrics()
    second = Metrics()
    first.begin()
    first.end("GET", '/a"b\\c', 200, 0.5)
    assert (first.answered, second.answered) == (1, 0)
    text = first.text(rows=1, columns=2, index_bytes=3).decode()
    key = (("method", "GET"), ("route", '/a"b\\c'), ("status", "200"))
    assert samples(text)["kinrank_requests_total"] == {key: 1}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "exactly one of"),
        ({"vector": [1, 2]}, "must have 8 columns, got 2"),
        ({"vector": ["1"] * 8}, "valid number"),
        ({"vector": [1] * 8, "vectors": [[1] * 8]}, "exactly one of"),
        ({"vectors": [[1] * 8, [1] * 7]}, "must have 8 columns, got 7"),
        ({"vectors": []}, "at least 1 item"),
        ({"vector": [1] * 8, "k": 0}, "greater than or equal to 1"),
        ({"vector": [1] * 8, "k": 1001}, "between 1 and 1,000"),
        ({"vector": [1] * 8, "l": 3}, "unknown field `l`"),
        ({"vector": [1e300] * 8}, "less than or equal to"),
        ({"vectors": [[1] * 8] * 257}, "at most 256"),
    ],
)  # fmt: skip
def test_bad_bodies_are_problems(pictures, body, words):
    assert words in problem(ask(pictures, "POST", "/v1/search", body), 422, _kind(words))


def _kind(words):
    return "too-many" if words in ("between 1 and 1,000", "at most 256") else "invalid-input"


def test_broken_bodies_are_problems(pictures):
    kind = {"Content_Type": "application/json"}
    for body in (b"{", b'{"vector": [NaN, 1, 1, 1, 1, 1, 1, 1]}', b"\xff", b""):
        problem(ask(pictures, "POST", "/v1/search", body, **kind), 422, "invalid-input")
    whole = npy(QUERIES[:2])
    objects = npy(np.array([{"a": 1}], object))
    wrong = [b"", b"nothing", whole[:-1], whole + b"1", objects, npy(np.array(["a"])),
             npy(np.full((1, 8), np.nan)), npy(np.zeros((0, 8))), npy(np.zeros((1, 1, 8))),
             npy(np.zeros((1, 7))), b"\x93NUMPY\x01\x00\xff\xff{"]  # fmt: skip
    for body in wrong:
        problem(ask(pictures, "POST", "/v1/search", body, Content_Type=NPY), 422, "invalid-input")
    # A header that promises more than there is must not make room for it.
    huge = whole.replace(b"(2, 8)", b"(2000000000, 8)")
    problem(ask(pictures, "POST", "/v1/search", huge, Content_Type=NPY), 422, "invalid-input")
    problem(ask(pictures, "POST", "/v1/search", b"a", Content_Type="text/plain"), 415, "media-type")
    problem(ask(pictures, "POST", "/v1/search", b"a", Content_Type="image/png"), 415, "no-model")


def test_methods_that_read_files_are_refused(pictures):
    sent = {"query": [1.0], "candidates": [[1.0], [2.0]]}
    for more in ({"method": "csa"}, {"method": "nope"}, {"params": {"k9": 1}},
                 {"params": {"method": "aqe"}}, {"params": {"steps": 10**9}}):  # fmt: skip
        problem(ask(pictures, "POST", "/v1/rerank", {**sent, **more}), 422, "invalid-input")


def test_what_is_not_there(pictures):
    problem(ask(pictures, "GET", "/nope"), 404, "not-found")
    problem(ask(pictures, "PUT", "/v1/search"), 405, "method-not-allowed")
    problem(ask(pictures, "GET", "/static/..%2fapp.py"), 404, "not-found")
    problem(ask(pictures, "GET", "/v1/explain?item=row%203"), 422, "invalid-input")
    problem(ask(pictures, "DELETE", "/v1/items/row%203"), 403, "read-only")
    problem(ask(pictures, "POST", "/v1/items", {"vectors": [[1] * 8]}), 403, "read-only")


# Pictures


def test_pictures_come_from_the_folder_alone(pictures):
    for one, kind in (("sub/red.png", "image/jpeg"), ("blue", "image/jpeg")):
        status, headers, content = ask(pictures, "GET", f"/v1/items/{quote(one, safe='')}/image")
        assert (status, headers["content-type"]) == (200, kind)
        assert content[:2] == b"\xff\xd8"
        assert headers["x-content-type-options"] == "nosniff"
    _, _, listed = ask(pictures, "GET", "/v1/items?limit=9")
    for item in listed["items"][2:]:
        answer = ask(pictures, "GET", f"/v1/items/{quote(item['id'], safe='')}/image")
        assert answer[0] == 404, item
        assert b"not for you" not in json.dumps(answer[2]).encode()


# Other sites


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"Host": "evil.example"}, "wrong-host"),
        ({"Host": "127.0.0.1.evil.example:80"}, "wrong-host"),
        ({"Host": "[::1"}, "wrong-host"),
        ({"Host": "[::1].evil.example"}, "wrong-host"),
        ({"Host": "localhost:18101, evil.example"}, "wrong-host"),
        ({"Host": "localhost:1a"}, "wrong-host"),
        ({"Host": "evil@localhost"}, "wrong-host"),
        ({"Host": "localhost:"}, "wrong-host"),
        ({"Origin": "http://["}, "cross-site"),
        ({"Origin": "ftp://127.0.0.1"}, "cross-site"),
        ({"Origin": "http://evil.example"}, "cross-site"),
        ({"Origin": "null"}, "cross-site"),
        ({"Origin": "http://127.0.0.1:1"}, "cross-site"),
        ({"Sec_Fetch_Site": "cross-site"}, "cross-site"),
    ],
)
def test_pages_of_other_sites_get_nothing(pictures, headers, kind):
    for method, path in (("GET", "/v1/info"), ("POST", "/v1/search"), ("GET", "/openapi.json")):
        answer = ask(pictures, method, path, **headers)
        problem(answer, 403, kind)
        assert not any(name.lower().startswith("access-control") for name in answer[1])


def test_our_own_page_may_ask(pictures):
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]", "[::1]:65535"):
        assert ask(pictures, "GET", "/v1/info", Host=host, Origin=f"http://{host}")[0] == 200
    own = {"Origin": pictures.url, "Sec_Fetch_Site": "same-origin"}
    assert ask(pictures, "GET", "/v1/info", **own)[0] == 200
    status, headers, _ = ask(pictures, "GET", "/", Sec_Fetch_Site="cross-site")
    assert status == 200  # a link may lead to it
    assert "default-src 'none'" in headers["content-security-policy"]


def test_a_token_is_asked_for(guarded):
    for path in ("/v1/info", "/metrics", "/openapi.json", "/v1/items"):
        problem(ask(guarded, "GET", path), 401, "unauthorized")
        problem(ask(guarded, "GET", path, Authorization="Bearer wrong"), 401, "unauthorized")
    assert ask(guarded, "GET", "/health")[0] == ask(guarded, "GET", "/")[0] == 200
    with kinrank.Client(guarded.url, guarded.token) as client:
        assert client.info()["rows"] == len(ROWS)
    with kinrank.Client(guarded.url) as client, pytest.raises(ServiceError) as raised:
        client.info()
    assert raised.value.status == 401


def test_other_hosts_need_a_token():
    for host in ("0.0.0.0", "192.168.1.5", "a.example", "::"):  # noqa: S104
        with pytest.raises(kinrank.InvalidInputError, match="`token` must be given"):
            Settings(host=host)
    assert not Settings(host="0.0.0.0", token="x" * 16).loopback  # noqa: S104
    for host in ("127.0.0.1", "127.0.0.2", "::1", "localhost"):
        assert Settings(host=host).loopback
    with pytest.raises(kinrank.InvalidInputError, match="at least 16"):
        Settings(token="short")  # noqa: S106


def test_a_host_that_others_reach_is_warned_of(folder):
    words = ("--host", "0.0.0.0", "--token", "x" * 20)  # noqa: S104
    with serving(folder / "an.index", *words, fresh=True) as server:
        assert "can be reached by other machines" in server.stop()


# Changes


def test_rows_are_added_and_removed_to_stay(writable):
    with kinrank.Client(writable.url) as client:
        assert client.add(ROWS[:2] + 0.01, ids=["new/one", "new two"]) == len(ROWS) + 2
        assert client.neighbors("new/one", 1).k == 1
        assert client.remove("new two") == len(ROWS) + 1
        assert client.add(ROWS[:1], ids=["seen"], labels=["cat"]) == len(ROWS) + 2
        found = ask(writable, "GET", "/v1/items?search=cat")[2]["items"]
        assert [(one["id"], one["label"]) for one in found] == [("seen", "cat")]
        with pytest.raises(ServiceError, match="one for each item"):
            client.add(ROWS[:1], ids=["other"], labels=["cat", "dog"])
        assert client.remove("seen") == len(ROWS) + 1
        assert client.update(["new/one"], ROWS[5:6]) == len(ROWS) + 1
        with pytest.raises(ServiceError, match="more than once"):
            client.add(ROWS[:1], ids=["new/one"])
        with pytest.raises(ServiceError, match="the ids of this index are text"):
            client.add(ROWS[:1])
        with pytest.raises(ServiceError, match="no row with the id") as raised:
            client.remove("new two")
        assert raised.value.status == 404
    assert "new/one" in kinrank.open(writable.path)
    assert "Stopped after" in writable.stop()
    kinrank.open(writable.path, writable=True).close()  # the lock is free


def labels_of(server):
    """The labels of all rows that have one, by id."""
    items = ask(server, "GET", "/v1/items?limit=500")[2]["items"]
    return {one["id"]: one["label"] for one in items if one["label"]}


def test_labels_are_saved_with_the_rows(folder, tmp_path):
    path, given = tmp_path / "an.index", ("--labels", folder / "labels.txt")
    path.write_bytes((folder / "an.index").read_bytes())
    with serving(path, "--writable", *given) as server, kinrank.Client(server.url) as client:
        client.add(ROWS[:2] + 0.01, ids=["cat 1", "cat 2"], labels=["cat", "cat"])
        before = labels_of(server)
        assert len(before) == len(ROWS) + 2
        assert before["cat 1"] == "cat"
    with serving(path) as server:  # without the file
        assert labels_of(server) == before
    with serving(path, "--writable", *given) as server, kinrank.Client(server.url) as client:
        assert labels_of(server) == before  # with it, though it is shorter
        client.update(["cat 1"], ROWS[5:6])  # which keeps its label
        client.remove("cat 2")
        assert labels_of(server) == {one: word for one, word in before.items() if one != "cat 2"}
        client.add(ROWS[7:8], ids=["bare"])
    refused = run("serve", path, *given)
    assert refused.exit_code == 2
    words = " ".join(refused.stderr.split())
    assert (
        f"one for each row of the index ({len(ROWS) + 2}), got {len(ROWS)}, and 1 of the 2" in words
    )
    assert "no label of their own, such as 'bare'" in words


def test_a_file_from_before_rows_moved_is_told(folder, tmp_path):
    path, given = tmp_path / "an.index", ("--labels", folder / "labels.txt")
    path.write_bytes((folder / "an.index").read_bytes())
    with serving(path, "--writable", *given) as server, kinrank.Client(server.url) as client:
        client.remove("row 3")
        before = labels_of(server)
    refused = run("serve", path, *given)
    assert refused.exit_code == 2
    assert "without the file those that are kept with the index count" in " ".join(
        refused.stderr.split()
    )
    with serving(path, "--writable") as server, kinrank.Client(server.url) as client:
        assert labels_of(server) == before
        client.add(ROWS[:1], ids=["new"], labels=["7"])
    with serving(path, *given) as server:  # as many as there are rows, but of others
        assert "The file says other labels than are kept with the index" in server.stop()


def test_notes_that_are_not_ours_are_refused(folder, tmp_path):
    index = kinrank.open(folder / "an.index")
    index.notes = {"labels": {"words": 3}}
    index.save(tmp_path / "an.index")
    assert kinrank.open(tmp_path / "an.index").notes == index.notes
    refused = run("serve", tmp_path / "an.index")
    assert "labels that are kept with the index must be pairs" in " ".join(refused.stderr.split())


# Limits


def test_too_many_results_are_refused_wherever_they_are_asked_for(pictures):
    vector = {"vector": ROWS[0].tolist()}
    pool = {"query": [0, 1], "candidates": [[0, 1], [1, 0], [1, 1]], "params": {"k1": 1, "k2": 1}}
    for route, body in (("/v1/search", vector), ("/v1/rerank", pool)):
        for path, sent in ((f"{route}?k=1001", body), (route, {**body, "k": 1001})):
            status, _, answer = ask(pictures, "POST", path, sent)
            assert (status, "between 1 and 1,000" in answer["detail"]) == (422, True)


def test_large_bodies_are_refused_unread(limited):
    problem(ask(limited, "POST", "/v1/search", b"0" * 300_001, Content_Type=NPY), 413, "too-large")
    # Without a length: counted while it comes.
    with socket.create_connection(("127.0.0.1", limited.port), timeout=20) as connection:
        connection.sendall(
            b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-npy\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(4):
            connection.sendall(b"186a0\r\n" + b"0" * 100_000 + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_slow_client_blocks_nobody_and_is_told(limited):
    slow = [socket.create_connection(("127.0.0.1", limited.port), timeout=20) for _ in range(40)]
    for connection in slow:
        connection.sendall(
            b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
    begun = time.perf_counter()
    with kinrank.Client(limited.url) as client:
        for _ in range(20):
            client.search(QUERIES[:1], 5)
    assert time.perf_counter() - begun < 2.5  # less than the timeout that the others wait for
    for connection in slow:
        assert connection.recv(200).startswith(b"HTTP/1.1 408")
        connection.close()


# The command


def test_the_command_refuses_in_one_line(folder, tmp_path, monkeypatch):
    for args, words in (
        ([], "Either INDEX or --demo"),
        ([folder / "an.index", "--demo"], "Either INDEX or --demo"),
        ([tmp_path / "none"], "there is no file"),
        ([folder / "labels.txt"], "must be an index saved by kinrank"),
        ([folder / "an.index", "--host", "0.0.0.0"], "`token` must be given"),  # noqa: S104
        ([folder / "an.index", "--labels", folder / "an.index"], "must be an npy"),
        (["--demo", "--model", "x"], "left out with --demo"),
    ):
        result = run("serve", *args)
        assert result.exit_code == 2, result.output
        assert words in " ".join(result.stderr.split())
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "kinrank[serve]" in run("serve", folder / "an.index").stderr


def test_a_port_that_is_taken_is_said(folder, pictures):
    result = run("serve", folder / "an.index", "--port", pictures.port)
    assert result.exit_code == 1
    assert f"127.0.0.1:{pictures.port}: Address already in use" in result.stderr


def test_a_client_without_a_service():
    with pytest.raises(ServiceError, match="gave no answer"):
        kinrank.Client("http://127.0.0.1:9").health()
    with pytest.raises(kinrank.InvalidInputError, match="must be like http"):
        kinrank.Client("127.0.0.1:9")


def test_a_store_that_failed_is_not_the_clients_fault():
    app = FastAPI()
    install(app)
    answer = app.exception_handlers[kinrank.KinrankError](None, kinrank.StoreError("No answer."))
    headers, content = dict(answer.headers), json.loads(answer.body)
    assert problem((answer.status_code, headers, content), 503, "store-failed") == "No answer."
