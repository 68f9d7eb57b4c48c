"""What one request, or many connections, may cost everybody else."""

import json
import resource
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import kinrank
from index_data import QUERIES, ROWS
from kinrank.serve import Settings
from kinrank.serve.bodies import parse_json, parse_npy
from kinrank.serve.problems import Problem
from kinrank.serve.run import HEAD_SECONDS
from serve_process import ask, npy, serving

M = 1_000_000
HANDLES = 200
BEGUN = (
    b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 100\r\n\r\n{"
)


def filled(unit, size, head=b'{"vectors": [', tail=b""):
    return head + unit * (size // len(unit)) + tail


HOSTILE = {  # bodies are made when they are sent: together they are 300 MB
    "empty lists": (lambda: filled(b"[],", 27 * M, tail=b"[]]}"), "at most 5,008 lists"),
    "numbers": (lambda: filled(b"0,", 31 * M, tail=b"0]}"), "at most 65,536 numbers"),
    "rows": (lambda: filled(b"[1e0,1],", 31 * M, tail=b"[]]}"), "at most 5,008 lists"),
    "one long row": (
        lambda: filled(b"0,", 31 * M, head=b'{"vectors": [[', tail=b"0]]}"),
        "at most 65,536 numbers",
    ),
    "a long row and short ones": (
        lambda: filled(b"1.5,", 30 * M, head=b'{"vectors": [[', tail=b"0]" + b",[1]" * 200 + b"]}"),
        "at most 65,536 numbers",
    ),
    "texts": (lambda: filled(b'"",', int(0.19 * M), tail=b'""]}'), "valid numbers"),
    "objects": (lambda: filled(b"{},", 31 * M, tail=b"{}]}"), "at most 65,536 numbers"),
    "objects in a field": (
        lambda: filled(b"{},", int(1.9 * M), head=b'{"vector": [', tail=b"{}]}"),
        "at most 1,000 objects",
    ),
    "fields": (lambda: filled(b'"a":1,', 31 * M, b"{", b'"k":1}'), "at most 200,000 colons"),
    "the same field": (lambda: filled(b'"k":1,', 31 * M, b"{", b'"k":1}'), "200,000 colons"),
    "deep": (lambda: b'{"vector": ' + b"[" * (31 * M), "nested too deeply"),
    "no end": (lambda: b'{"vectors": "' + b"a" * (31 * M), "truncated"),
    "spaces": (lambda: b'{"vector": [1' + b" " * (31 * M) + b"]}", "mostly vectors"),
    "digits": (lambda: b'{"vector": [1.' + b"1" * (31 * M) + b"]}", "mostly vectors"),
    "wide": (
        lambda: b'{"vectors": [' + (b"[" + b"1e0," * 65_535 + b"1],") * 118 + b"[1]]}",
        "rows of one length",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def attacked(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("attacked") / "an.index"
    path.write_bytes((folder / "an.index").read_bytes())
    with serving(path, "--writable") as server:
        for _ in range(3):
            ask(server, "POST", "/v1/search", {"vector": QUERIES[0].tolist()})
        yield server


def megabytes(server, what):
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(what))


def watched(server, work):
    """What ``work`` returns, the megabytes it took, and how long `/health` took meanwhile."""
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")  # forget the peak
    before, times, done = megabytes(server, "VmRSS"), [], threading.Event()

    def poll():
        while not done.is_set():
            begun = time.perf_counter()
            assert ask(server, "GET", "/health")[0] == 200
            times.append(time.perf_counter() - begun)
            time.sleep(0.005)

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        return work(), megabytes(server, "VmHWM") - before, times
    finally:
        done.set()
        polling.join()


@pytest.mark.parametrize("path", ["/v1/search", "/v1/items"])
@pytest.mark.parametrize("name", HOSTILE)
def test_no_body_takes_memory_or_time_from_others(attacked, path, name):
    body, words = HOSTILE[name]
    if path == "/v1/items" and name not in ("empty lists", "texts"):
        return
    sent = body()
    answer, taken, times = watched(
        attacked, lambda: ask(attacked, "POST", path, sent, Content_Type="application/json")
    )
    assert answer[0] == 422
    assert words in answer[2]["detail"]
    assert len(answer[2]["detail"]) < 500
    assert taken < 200
    # One answer may be late for reasons of the machine; a stall would be seconds.
    assert sorted(times)[len(times) // 2] < 0.1
    assert max(times) < 0.5


def test_many_numbers_are_taken_and_more_refused(attacked):
    row = b"[" + b"1e0," * 255 + b"%d]"
    rows = b",".join(row % n for n in range(2000))
    pool = b'{"query": ' + row % 3 + b', "candidates": [' + rows + b'], "method": "aqe"}'
    answer, taken, _ = watched(
        attacked, lambda: ask(attacked, "POST", "/v1/rerank", pool, Content_Type="application/json")
    )
    assert answer[0] == 200
    assert answer[2]["indices"][0][0] == 3
    assert taken < 200
    body = npy(np.ones((4900, 6500), np.uint8))
    status, _, content = ask(attacked, "POST", "/v1/rerank", body, Content_Type="application/x-npy")
    assert (status, content["detail"]) == (422, "The array must have at most 8,000,000 numbers.")


# Fields are read apart


NUMBERS = st.integers(-(2**63), 2**64) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text() | st.lists(NUMBERS),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=6),
    max_leaves=30,
)


class Sent(BaseModel):
    """A body of two fields of any kind."""

    first: Any = None
    second: Any = None


@settings(max_examples=200, deadline=None)
@given(VALUES, VALUES, st.sampled_from([None, 2]), st.booleans())
def test_what_is_read_is_what_was_sent(first, second, indent, ascii_only):
    sent = {"first": first, "second": second}
    body = json.dumps(sent, indent=indent, ensure_ascii=ascii_only).encode(errors="replace")
    assert parse_json(Sent, body, Settings()).model_dump() == json.loads(body)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet='[]{}",:\\0123.eE- \n', max_size=60).map(str.encode) | st.binary())
def test_what_is_no_json_is_refused(value):
    body = b'{"first": ' + value + b"}"
    try:
        expected = json.loads(body.decode(), parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        with pytest.raises(Problem, match="must be JSON"):
            parse_json(Sent, body, Settings())
        return
    try:
        assert parse_json(Sent, body, Settings()).first == expected["first"]
    except Problem:
        # Other fields, numbers that no float can be, half of a letter: JSON, but of no use.
        assert expected.keys() != {"first"} or "Infinity" in json.dumps(expected) or b"\\u" in body


def test_ids_keep_all_their_digits(attacked):
    sent = {"query": [1, 2], "candidates": [[1, 2], [2, 1]], "ids": [2**53 + 1, 2**62 + 1]}
    _, _, content = ask(attacked, "POST", "/v1/rerank", {**sent, "method": "knn", "k": 2})
    assert sorted(content["ids"][0]) == sent["ids"]
    for ids in ([], [1], [1, 2.5], [[1], [2]], ["a", 1, {}]):
        status, _, _ = ask(attacked, "POST", "/v1/rerank", {**sent, "ids": ids})
        assert status == 422


def test_broken_headers_of_npy_files_are_refused():
    whole = npy(QUERIES[:2].astype(np.float32))
    end = whole.index(b"\n") + 1
    random = np.random.default_rng(0)
    headers = [b"(-2, -8)", b"(-2,-8,)", b"(2, 8", b"[2, 8]", b"(2.0, 8)", b"('a',)", b"(2, 8L)",
               b"(10**99, 8)", b"((2, 8),)", b"()", b"(True, 16)", b"{}", b"(" * 50]  # fmt: skip
    broken = [whole.replace(b"(2, 8)", shape) for shape in headers]
    # The same length, as the header says how long it is.
    shapes = (b"(True, 16)", b"(16, True)", b"(-2, -8)", b"(2, 8, True)", b"(16, False)")
    for shape in shapes:
        body = whole.replace(b"(2, 8), }".ljust(20), (shape + b", }").ljust(20))
        assert shape in body
        with pytest.raises(Problem, match="must be an npy file") as refused:
            parse_npy(body, Settings())
        assert refused.value.status == 422
    descriptions = (b"[]", b"'<f9'", b"{}", b"('f4', -1)", b"[('a', 'f4')]", b"'O'", b"None", b"1")
    broken += [whole.replace(b"'<f4'", kind) for kind in descriptions]
    for _ in range(2000):
        one = bytearray(whole)
        for _ in range(random.integers(1, 5)):
            one[random.integers(0, end)] = random.integers(0, 256)
        broken.append(bytes(one))
    for body in broken:
        try:
            rows = parse_npy(body, Settings())
        except Problem as problem:
            assert problem.status == 422  # noqa: PT017  either is right
        else:
            assert rows.ndim == 2
            assert rows.size


# Connections


@pytest.fixture
def crowded(folder):
    """A service with few file handles."""
    with serving(folder / "an.index", handles=HANDLES) as server:
        yield server


@contextmanager
def connections(server, count, words=b""):
    """Connections that say some words; some are closed by the service meanwhile."""
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            one = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            made.append(stack.enter_context(one))
            with suppress(OSError):
                one.sendall(words)
        yield made


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n",
        BEGUN,
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["nothing", "half a head", "half a body", "idle"],
)
def test_connections_that_wait_do_not_close_the_door(crowded, words):
    with connections(crowded, 300, words):
        for _ in range(5):
            begun = time.perf_counter()
            assert ask(crowded, "GET", "/health")[0] == 200
            assert time.perf_counter() - begun < 2
        with kinrank.Client(crowded.url) as client:
            assert client.search(QUERIES[:1], 3).k == 3
    assert crowded.stop().startswith("Stopped after")  # nothing in the log


def test_heads_have_a_deadline(limited):
    """Also when something comes all the time, and when a body follows that nobody reads."""
    ended, begun = {}, time.monotonic()
    with connections(limited, 3) as made:
        made[1].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        made[2].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n")
        while len(ended) < 3 and time.monotonic() - begun < HEAD_SECONDS + 10:
            for at in {0, 1, 2} - ended.keys():
                made[at].settimeout(0.2)
                try:
                    if at:
                        made[at].sendall(b"a")
                    gone = made[at].recv(10_000) == b""
                except TimeoutError:
                    gone = False
                except OSError:
                    gone = True
                if gone:
                    ended[at] = time.monotonic() - begun
    assert len(ended) == 3
    assert all(HEAD_SECONDS - 2 < seconds < HEAD_SECONDS + 5 for seconds in ended.values()), ended


def test_an_answer_that_nobody_takes_is_cut_off_at_last():
    """See ``Connection.timeout_keep_alive_handler``: what is closed is aborted later."""
    from kinrank.serve.run import Connection

    asked = []

    class Fake(Connection):
        def __init__(self):
            self.transport = self.loop = self

        def is_closing(self):
            return True

        def call_later(self, seconds, function):
            asked.append((seconds, function))

        def abort(self):
            asked.append("aborted")

    Fake().timeout_keep_alive_handler()
    asked[0][1]()
    assert asked[0][0] >= 10
    assert asked[1] == "aborted"


# A disk that is full


def limit_files(server, size):
    """Let no file of the service become longer: writing fails, as on a full disk."""
    hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, hard))


def test_a_change_that_cannot_be_saved_is_not_made(writable):
    new = (ROWS[:1] + 0.5).tolist()
    # Kernels are compiled, and their files written, before there is a limit.
    assert ask(writable, "POST", "/v1/items", {"vectors": new, "ids": ["warm"]})[0] == 200
    assert ask(writable, "DELETE", "/v1/items/warm")[0] == 200
    before = writable.path.read_bytes()
    add = ("POST", "/v1/items", {"vectors": new, "ids": ["new"], "labels": ["cat"]})
    update = ("POST", "/v1/items", {"vectors": new, "ids": ["row 1"], "update": True})
    remove = ("DELETE", "/v1/items/row%202")

    def nearest():
        content = ask(writable, "POST", "/v1/search", {"vector": new[0], "k": 1, "base": True})[2]
        return content["ids"][0][0]

    was = nearest()
    for change in (add, update, remove):
        limit_files(writable, 1000)
        for _ in range(2):  # the second is no duplicate of the first
            status, _, content = ask(writable, *change)
            assert status == 507
            assert content["type"].endswith(":not-saved")
            assert "nothing was changed" in content["detail"]
        assert ask(writable, "GET", "/health")[2]["rows"] == len(ROWS)
        assert nearest() == was
        assert ask(writable, "GET", "/v1/items?search=cat")[2]["total"] == 0
        assert writable.path.read_bytes() == before
        assert [one.name for one in writable.path.parent.glob(".*.tmp")] == []
        limit_files(writable, resource.RLIM_INFINITY)
    assert [ask(writable, *change)[0] for change in (add, update, remove)] == [200] * 3
    saved = kinrank.open(writable.path)
    assert "new" in saved
    assert "row 2" not in saved
    assert len(saved) == len(ROWS)
    assert ask(writable, "GET", "/v1/items?search=cat")[2]["total"] == 1


# Results that are not there


@pytest.mark.parametrize(("ids", "pad"), [([[7, 0, 0]], -1), ([["a", "b", "b"]], "")])
def test_pads_have_no_id(ids, pad):
    """As in ``rerank_pool``, whatever id a ranking has there."""
    from kinrank.client import read_ranking
    from kinrank.serve.routes import ranking_json

    distances = np.array([[0.5, np.inf, np.inf]], np.float32)
    ranking = kinrank.Ranking(np.array([[3, -1, -1]], np.int32), distances, np.array(ids))
    sent = json.loads(ranking_json(ranking).body)
    assert sent == {"ids": [[ids[0][0], None, None]], "distances": [[0.5, None, None]],
                    "indices": [[3, -1, -1]], "presence": None}  # fmt: skip
    found = read_ranking(sent)
    assert found.ids.tolist() == [[ids[0][0], pad, pad]]
    assert found.ids.dtype.kind == np.array(ids).dtype.kind
    np.testing.assert_array_equal(found.distances, distances)
