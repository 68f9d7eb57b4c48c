"""A client of `kinrank serve`, with nothing but the standard library and numpy.

client = kinrank.Client("http://127.0.0.1:8765")
ranking = client.search(vectors, k=10)
"""

from __future__ import annotations

import http.client
import io
import json
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import numpy as np

from kinrank.errors import InvalidInputError, KinrankError
from kinrank.io import PathLike
from kinrank.types import Ranking
from kinrank.validation import as_array

_JSON, _NPY = "application/json", "application/x-npy"
_KINDS = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


class ServiceError(KinrankError):
    """What the service refused, as it said it.

    Attributes
    ----------
    status : of HTTP; 0 if there was no answer
    kind : such as "invalid-input", the end of the problem's type
    """

    def __init__(self, status: int, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.kind = status, kind


class Client:
    """Asks a service. May be used from several threads; each has a connection of its own.

    Parameters
    ----------
    url : such as "http://127.0.0.1:8765"
    token : if the service asks for one
    timeout : seconds to wait for a connection, and for each part of an answer
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInputError(f"`url` must be like http://127.0.0.1:8765, got {url!r}.")
        self._parts, self._timeout = parts, timeout
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._own = threading.local()

    def search(self, vectors: Any, k: int = 10, *, base: bool = False) -> Ranking:
        """Rank the index for each vector.

        Parameters
        ----------
        vectors : (n_queries, d), or (d,) for one
        k : results per query
        base : by the plain distance, to compare with
        """
        asked = urlencode({"k": k, "base": str(base).lower()})
        body = _npy(np.atleast_2d(as_array("vectors", vectors)))
        return _ranking(self._ask("POST", f"/v1/search?{asked}", body, _NPY))

    def search_image(self, picture: bytes | PathLike, k: int = 10) -> Ranking:
        """Rank the index for a picture: its bytes, or its file."""
        path = f"/v1/search?{urlencode({'k': k})}"
        return _ranking(self._ask("POST", path, *_picture(picture)))

    def rerank(
        self, query: Any, candidates: Any, ids: Any = None, k: int = 10, method: str = "cas",
        **params: Any,
    ) -> Ranking:  # fmt: skip
        """Re-rank the candidates of one query, as ``kinrank.rerank_pool``."""
        sent: dict[str, Any] = {
            "query": as_array("query", query).ravel().tolist(),
            "candidates": as_array("candidates", candidates).tolist(),
            "k": k,
            "method": method,
            "params": params,
        }
        if ids is not None:
            sent["ids"] = np.asarray(ids).tolist()
        return _ranking(self._ask("POST", "/v1/rerank", sent))

    def neighbors(self, one: int | str, k: int = 10) -> Ranking:
        """The rows nearest to a row of the index, itself left out."""
        path = f"/v1/items/{quote(str(one), safe='')}/neighbors?{urlencode({'k': k})}"
        return _ranking(self._ask("GET", path))

    def explain(self, item: int | str, *, query: Any = None, vector: Any = None) -> dict[str, Any]:
        """Why an item has its distance from a row (``query``, its id) or from a vector."""
        asked: dict[str, Any] = {"item": item}
        if query is not None:
            asked["query"] = query
        if vector is not None:
            asked["vector"] = ",".join(map(repr, as_array("vector", vector).ravel().tolist()))
        found: dict[str, Any] = self._ask("GET", f"/v1/explain?{urlencode(asked)}")
        return found

    def add(
        self, vectors: Any, ids: Any = None, *, labels: Any = None, update: bool = False
    ) -> int:
        """Add rows, or with ``update`` change them; returns how many the index has then.

        labels : text, one for each row; saved with the index
        """
        sent: dict[str, Any] = {
            "vectors": np.atleast_2d(as_array("vectors", vectors)).tolist(),
            "update": update,
        }
        if ids is not None:
            sent["ids"] = np.asarray(ids).tolist()
        if labels is not None:
            sent["labels"] = [str(one) for one in labels]
        return int(self._ask("POST", "/v1/items", sent)["rows"])

    def add_image(
        self, picture: bytes | PathLike, one: int | str | None = None, *, label: str | None = None,
        update: bool = False,
    ) -> int:  # fmt: skip
        """Add a picture (its bytes, or its file) as a row; returns how many the index has then.

        one : its id; None continues behind the largest integer
        """
        sent = {"id": one, "label": label, "update": str(update).lower()}
        asked = urlencode({name: value for name, value in sent.items() if value is not None})
        return int(self._ask("POST", f"/v1/items?{asked}", *_picture(picture))["rows"])

    def remove(self, one: int | str) -> int:
        """Remove a row; returns how many the index has then."""
        return int(self._ask("DELETE", f"/v1/items/{quote(str(one), safe='')}")["rows"])

    def info(self) -> dict[str, Any]:
        """What is served, and its limits."""
        found: dict[str, Any] = self._ask("GET", "/v1/info")
        return found

    def health(self) -> dict[str, Any]:
        """Whether the service is there."""
        found: dict[str, Any] = self._ask("GET", "/health")
        return found

    def close(self) -> None:
        """Close the connection of this thread."""
        connection = getattr(self._own, "connection", None)
        if connection is not None:
            connection.close()
            self._own.connection = None

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def _ask(self, method: str, path: str, body: Any = None, kind: str = _JSON) -> Any:
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body, allow_nan=False).encode()
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = kind
        try:
            status, content = self._send(method, self._parts.path.rstrip("/") + path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            where = f"{self._parts.scheme}://{self._parts.netloc}"
            raise ServiceError(0, "no-answer", f"{where} gave no answer: {error}.") from error
        if status >= 300:
            raise _error(status, content)
        return json.loads(content)

    def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        used = getattr(self._own, "connection", None)
        try:
            return _exchange(used or self._connect(), method, path, body, headers)
        except (http.client.RemoteDisconnected, ConnectionError):
            # A connection that was idle for too long has been closed; nothing was done yet, unless
            # it was a change: those are never sent twice.
            self.close()
            repeatable = method == "GET" or path.startswith(("/v1/search", "/v1/rerank"))
            if used is None or not repeatable:
                raise
            return _exchange(self._connect(), method, path, body, headers)

    def _connect(self) -> http.client.HTTPConnection:
        secure = self._parts.scheme == "https"
        made = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        assert self._parts.hostname is not None
        self._own.connection = made(self._parts.hostname, self._parts.port, timeout=self._timeout)
        connection: http.client.HTTPConnection = self._own.connection
        return connection


def _exchange(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None,
    headers: Mapping[str, str],
) -> tuple[int, bytes]:  # fmt: skip
    connection.request(method, path, body, dict(headers))
    answer = connection.getresponse()
    return answer.status, answer.read()


def _picture(picture: bytes | PathLike) -> tuple[bytes, str]:
    """The bytes of a picture, and what they are."""
    content = picture
    if not isinstance(content, bytes):
        with open(content, "rb") as file:  # noqa: PTH123  any path-like
            content = file.read()
    kinds = [kind for start, kind in _KINDS.items() if content.startswith(start)]
    return content, kinds[0] if kinds else "image/*"


def _npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)
    return stream.getvalue()


def _ranking(content: Mapping[str, Any]) -> Ranking:
    missing = [[np.inf if one is None else one for one in row] for row in content["distances"]]
    indices = np.array(content["indices"], np.int32)
    text = any(isinstance(one, str) for row in content["ids"] for one in row)
    ids = [[("" if text else -1) if one is None else one for one in row] for row in content["ids"]]
    return Ranking(indices, np.array(missing, np.float32), np.array(ids).reshape(indices.shape))


def _error(status: int, content: bytes) -> ServiceError:
    try:
        problem = json.loads(content)
        kind = str(problem["type"]).rpartition(":")[2]
        return ServiceError(status, kind, str(problem["detail"]))
    except (ValueError, KeyError, TypeError):  # somebody in between answered
        return ServiceError(status, "http", f"The service answered {status}.")
