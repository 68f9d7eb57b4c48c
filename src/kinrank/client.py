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
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import numpy as np

from kinrank.conditions import refuse_pair
from kinrank.errors import InvalidInputError, KinrankError, shown
from kinrank.io import PathLike
from kinrank.types import Ranking
from kinrank.validation import as_array, check_float

_JSON = "application/json"
_NPY = "application/x-npy"
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
        self.status = status
        self.kind = kind


class Client:
    """Asks a service. May be used from several threads; each has a connection of its own.

    Parameters
    ----------
    url : such as "http://127.0.0.1:8765"
    token : if the service asks for one
    timeout : seconds to wait for a connection, and for each part of an answer

    Examples
    --------
    >>> import kinrank
    >>> client = kinrank.Client("http://127.0.0.1:8765")  # connects with the first request
    >>> client.close()
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        self._url = _address(url)
        self._timeout = check_float("timeout", timeout, 0, low_open=True)
        self._headers = {} if token is None else {"Authorization": f"Bearer {_token(token)}"}
        self._threads = threading.local()  # a connection for each

    def search(
        self, vectors: Any, k: int = 10, *, base: bool = False, **conditions: Any
    ) -> Ranking:
        """Rank the index for each vector.

        Parameters
        ----------
        vectors : (n_queries, d), or (d,) for one
        k : results per query
        base : by the plain distance, to compare with
        **conditions : as of ``Index.search``: ``allowed`` and ``exclude`` (ids), ``where``,
            ``differ``, ``threshold``, ``unknown_rate``, ``pair_false_match_rate``, ``items``,
            ``right`` and ``wrong``
        """
        rows = np.atleast_2d(as_array("vectors", vectors))
        if not conditions:
            return read_ranking(self._ask("POST", "/v1/search", _npy(rows), _NPY, k=k, base=base))
        if isinstance(conditions.get("where"), Mapping):
            for name, wanted in conditions["where"].items():
                refuse_pair(f"where[{name!r}]", wanted)  # JSON would make a list of it
        body = _plain_fields({"vectors": rows, "k": k, "base": base, **conditions})
        return read_ranking(self._ask("POST", "/v1/search", body))

    def search_image(self, picture: bytes | PathLike, k: int = 10) -> Ranking:
        """Rank the index for a picture: its bytes, or its file."""
        return read_ranking(self._ask("POST", "/v1/search", *_picture(picture), k=k))

    def rerank(
        self,
        query: Any,
        candidates: Any,
        ids: Any = None,
        k: int = 10,
        method: str = "cas",
        *,
        allowed: Any = None,
        exclude: Any = None,
        **params: Any,
    ) -> Ranking:
        """Re-rank the candidates of one query, as ``kinrank.rerank_pool``.

        allowed, exclude : candidates that may be answers, that may not, by their ids (or positions)
        """
        sent = {"query": as_array("query", query).ravel(), "k": k, "method": method}
        sent |= {"candidates": as_array("candidates", candidates), "params": params}
        sent |= {"ids": ids, "allowed": allowed, "exclude": exclude}
        return read_ranking(self._ask("POST", "/v1/rerank", _plain_fields(sent)))

    def neighbors(self, item: int | str, k: int = 10) -> Ranking:
        """The rows nearest to a row of the index, itself left out."""
        return read_ranking(self._ask("GET", f"{_item(item)}/neighbors", k=k))

    def explain(self, item: int | str, *, query: Any = None, vector: Any = None) -> dict[str, Any]:
        """Why an item has its distance from a row (``query``, its id) or from a vector."""
        if vector is not None:
            vector = ",".join(map(repr, as_array("vector", vector).ravel().tolist()))
        return self._ask("GET", "/v1/explain", item=item, query=query, vector=vector)

    def add(
        self, vectors: Any, ids: Any = None, *, labels: Any = None, attributes: Any = None
    ) -> int:
        """Add rows; returns how many the index has then.

        labels : text, one for each row; saved with the index
        attributes : values of each row, by the names that the index has
        """
        return self._send_items(vectors, ids, labels, attributes, update=False)

    def update(
        self, ids: Any, vectors: Any = None, *, labels: Any = None, attributes: Any = None
    ) -> int:
        """Give rows that are there other vectors, attributes or both, as ``Index.update``.

        labels : text, one for each row, beside the vectors or attributes
        """
        return self._send_items(vectors, ids, labels, attributes, update=True)

    def _send_items(
        self, vectors: Any, ids: Any, labels: Any, attributes: Any, *, update: bool
    ) -> int:
        sent = {
            "vectors": None if vectors is None else np.atleast_2d(as_array("vectors", vectors)),
            "ids": None if ids is None else np.atleast_1d(as_array("ids", ids)),
            "labels": None if labels is None else [str(label) for label in labels],
            "attributes": attributes,
            "update": update,
        }
        return int(self._ask("POST", "/v1/items", _plain_fields(sent))["rows"])

    def add_image(
        self,
        picture: bytes | PathLike,
        item: int | str | None = None,
        *,
        label: str | None = None,
        update: bool = False,
    ) -> int:
        """Add a picture (its bytes, or its file) as a row; returns how many the index has then.

        item : its id; None continues behind the largest integer
        """
        asked: dict[str, Any] = {"id": item, "label": label, "update": update}
        return int(self._ask("POST", "/v1/items", *_picture(picture), **asked)["rows"])

    def remove(self, item: int | str) -> int:
        """Remove a row; returns how many the index has then."""
        return int(self._ask("DELETE", _item(item))["rows"])

    def info(self) -> dict[str, Any]:
        """What is served, and its limits."""
        return self._ask("GET", "/v1/info")

    def health(self) -> dict[str, Any]:
        """Whether the service is there."""
        return self._ask("GET", "/health")

    def close(self) -> None:
        """Close the connection of this thread."""
        connection = self._threads.__dict__.pop("connection", None)
        if connection is not None:
            connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(
        self, method: str, path: str, body: Any = None, kind: str = _JSON, **asked: Any
    ) -> dict[str, Any]:
        """The answer as JSON; asked : what goes into the address, without what is None."""
        words = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in asked.items()
            if value is not None
        }
        path = f"{self._url.path.rstrip('/')}{path}{'?' if words else ''}{urlencode(words)}"
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = kind
            body = body if isinstance(body, bytes) else json.dumps(body, allow_nan=False).encode()
        used = hasattr(self._threads, "connection")
        try:
            try:
                status, content = self._exchange(method, path, body, headers)
            except (http.client.RemoteDisconnected, ConnectionError):
                # A connection that was idle for too long has been closed; nothing was done yet,
                # unless it was a change: those are never sent twice.
                self.close()
                repeatable = method == "GET" or path.startswith(("/v1/search", "/v1/rerank"))
                if not (used and repeatable):
                    raise
                status, content = self._exchange(method, path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            reason = f"{self._url.scheme}://{self._url.netloc} gave no answer: {error}."
            raise ServiceError(0, "no-answer", reason) from error
        if status >= 300:
            raise _error(status, content)
        answer: dict[str, Any] = json.loads(content)
        return answer

    def _exchange(self, *sent: Any) -> tuple[int, bytes]:
        if not hasattr(self._threads, "connection"):
            secure = self._url.scheme == "https"
            made = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            assert self._url.hostname is not None
            connection = made(self._url.hostname, self._url.port, timeout=self._timeout)
            self._threads.connection = connection
        self._threads.connection.request(*sent)
        answer = self._threads.connection.getresponse()
        return answer.status, answer.read()


def _address(url: object) -> SplitResult:
    """The parts of an address."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        usable = parts is not None and parts.scheme in ("http", "https") and parts.hostname
        if parts is not None and usable and parts.port != 0:  # which raises on what is no port
            return parts
    except ValueError:
        pass
    raise InvalidInputError(f"`url` must be like http://127.0.0.1:8765, got {shown(url)}.")


def _token(token: object) -> str:
    """What can stand in a header."""
    if isinstance(token, str) and token.isascii() and token.isprintable():
        return token
    raise InvalidInputError("`token` must be text of printable ASCII letters, got something else.")


def _item(item: int | str) -> str:
    return f"/v1/items/{quote(str(item), safe='')}"


def _picture(picture: bytes | PathLike) -> tuple[bytes, str]:
    """The bytes of a picture, and what they are."""
    content = picture if isinstance(picture, bytes) else Path(picture).read_bytes()
    kinds = [kind for start, kind in _KINDS.items() if content.startswith(start)]
    return content, kinds[0] if kinds else "image/*"


def _npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)
    return stream.getvalue()


def _plain_fields(sent: Mapping[str, Any]) -> dict[str, Any]:
    """A body as JSON has it, without what is None."""
    return {name: _plain(value) for name, value in sent.items() if value is not None}


def _plain(value: Any) -> Any:
    """Arrays and sets as JSON has them."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, (set, frozenset, list, tuple)):
        return [_plain(entry) for entry in value]
    return value.tolist() if hasattr(value, "tolist") else value


def read_ranking(content: Mapping[str, Any]) -> Ranking:
    """The ranking of an answer; results that are missing have the id -1 or an empty text."""
    indices = np.array(content["indices"], np.int32)
    text = any(isinstance(item, str) for row in content["ids"] for item in row)

    def filled(name: str, pad: Any) -> list[list[Any]]:
        return [[pad if value is None else value for value in row] for row in content[name]]

    ids = np.array(filled("ids", "" if text else -1)).reshape(indices.shape)
    presence = content.get("presence")
    probabilities = None if presence is None else np.array(presence, np.float32)
    distances = np.array(filled("distances", np.inf), np.float32)
    return Ranking(indices, distances, ids, probabilities)


def _error(status: int, content: bytes) -> ServiceError:
    try:
        problem = json.loads(content)
        kind = str(problem["type"]).rpartition(":")[2]
        return ServiceError(status, kind, str(problem["detail"]))
    except (ValueError, KeyError, TypeError):  # somebody in between answered
        return ServiceError(status, "http", f"The service answered {status}.")
