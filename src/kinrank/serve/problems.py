"""Errors as problem details (RFC 9457), whatever raised them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from kinrank import errors
from kinrank.errors import KinrankError

MEDIA_TYPE = "application/problem+json"
_LOGGER = logging.getLogger(__name__)
# wrong fields that are listed, and letters of each
_SHOWN = 10
_LENGTH = 200
_STATUS: tuple[tuple[type[KinrankError], int, str], ...] = (
    (errors.UnknownIdError, 404, "unknown-id"),
    (errors.LockedError, 409, "locked"),
    (errors.OptionalDependencyError, 501, "not-installed"),
    (errors.StoreError, 503, "store-failed"),
    (KinrankError, 422, "invalid-input"),
)
_MEANINGS = {
    400: "A request that cannot be understood",
    401: "No token, or another one",
    403: "A page of another site, or not allowed here",
    404: "No such item",
    408: "The body took too long",
    409: "Somebody else is writing the index",
    413: "The body is too large",
    415: "A body of another kind",
    422: "Something given cannot be used",
    501: "An extra is not installed",
    503: "Too busy, or it took too long",
    507: "The index could not be saved; nothing was changed",
}


class WrongField(BaseModel):
    """A field that cannot be used."""

    field: str = Field(examples=["body.k"])
    detail: str = Field(examples=["Input should be greater than or equal to 1"])


class ProblemDetails(BaseModel):
    """What every error looks like (RFC 9457)."""

    type: str = Field(examples=["urn:kinrank:problem:invalid-input"])
    title: str = Field(examples=["Unprocessable Content"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["`queries` must have as many columns as the index (64), got 3."])
    errors: list[WrongField] | None = None


class Problem(Exception):  # noqa: N818  it is what the standard calls it
    """An error of the service itself.

    kind : the last part of the problem's type
    """

    def __init__(
        self, status: int, kind: str, detail: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = headers

    def response(self, errors: list[dict[str, str]] | None = None) -> Response:
        body = {
            "type": f"urn:kinrank:problem:{self.kind}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            **({"errors": errors} if errors else {}),
        }
        return Response(json.dumps(body), self.status, self.headers, MEDIA_TYPE)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route beside those that all have, for its description."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    return {
        status: {"description": _MEANINGS[status], "content": content, "model": ProblemDetails}
        for status in sorted({*statuses, 400, 401, 403, 422, 503})
    }


def install(app: FastAPI) -> None:
    """Let ``app`` answer every error as a problem."""
    handlers: dict[type[Exception], Callable[[Request, Any], Response]] = {
        Problem: lambda _, error: error.response(),
        KinrankError: _of_library,
        RequestValidationError: _of_fields,
        ValidationError: _of_fields,
        HTTPException: _of_http,
        Exception: _unexpected,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _of_library(_: Request, error: KinrankError) -> Response:
    status, name = next((code, name) for kind, code, name in _STATUS if isinstance(error, kind))
    return Problem(status, name, str(error)).response()


def _of_fields(_: Request, error: RequestValidationError | ValidationError) -> Response:
    wrong = [
        {"field": ".".join(map(str, one["loc"]))[:_LENGTH] or "body", "detail": str(one["msg"])}
        for one in list(error.errors())[:_SHOWN]
    ]
    first = f"{wrong[0]['field']}: {wrong[0]['detail']}" if wrong else "The request is not valid"
    return Problem(422, "invalid-input", f"{first}.").response(wrong)


def _of_http(_: Request, error: HTTPException) -> Response:
    kind = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "http")
    headers = dict(error.headers or {})
    return Problem(error.status_code, kind, f"{error.detail}.", headers).response()


def _unexpected(request: Request, error: Exception) -> Response:
    _LOGGER.error("%s %s failed", request.method, request.url.path, exc_info=error)
    words = "Something failed here; the log of the service tells."
    return Problem(500, "internal", words).response()
