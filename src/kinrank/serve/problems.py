"""Errors as problem details (RFC 9457), whatever raised them."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from kinrank.errors import (
    FileFormatError,
    KinrankError,
    LockedError,
    OptionalDependencyError,
    StoreError,
    UnknownIdError,
)

MEDIA_TYPE = "application/problem+json"
_LOGGER = logging.getLogger(__name__)
_SHOWN, _LENGTH = 10, 200  # wrong fields that are listed, and letters of each
_STATUS: tuple[tuple[type[KinrankError], int, str], ...] = (
    (UnknownIdError, 404, "unknown-id"),
    (LockedError, 409, "locked"),
    (OptionalDependencyError, 501, "not-installed"),
    (StoreError, 503, "store-failed"),
    (FileFormatError, 422, "invalid-input"),
    (KinrankError, 422, "invalid-input"),
)


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
        self.status, self.kind, self.detail, self.headers = status, kind, detail, headers

    def response(self, errors: list[dict[str, str]] | None = None) -> Response:
        """The problem as an answer."""
        body: dict[str, Any] = {
            "type": f"urn:kinrank:problem:{self.kind}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if errors:
            body["errors"] = errors
        content = json.dumps(body)
        return Response(content, self.status, headers=self.headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Let ``app`` answer every error as a problem."""
    app.add_exception_handler(Problem, _of_service)
    app.add_exception_handler(KinrankError, _of_library)
    app.add_exception_handler(RequestValidationError, _of_fields)
    app.add_exception_handler(ValidationError, _of_fields)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _unexpected)


def _of_service(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


def _of_library(_: Request, error: Exception) -> Response:
    for kind, status, name in _STATUS:
        if isinstance(error, kind):
            return Problem(status, name, str(error)).response()
    raise error


def _of_fields(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError | ValidationError)
    wrong = [
        {"field": ".".join(map(str, one["loc"]))[:_LENGTH] or "body", "detail": str(one["msg"])}
        for one in list(error.errors())[:_SHOWN]
    ]
    first = f"{wrong[0]['field']}: {wrong[0]['detail']}" if wrong else "The request is not valid"
    return Problem(422, "invalid-input", f"{first}.").response(wrong)


def _of_http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kinds = {404: "not-found", 405: "method-not-allowed"}
    kind = kinds.get(error.status_code, "http")
    headers = dict(error.headers) if error.headers else None
    return Problem(error.status_code, kind, f"{error.detail}.", headers).response()


def _unexpected(request: Request, error: Exception) -> Response:
    _LOGGER.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return Problem(
        500, "internal", "Something failed here; the log of the service tells."
    ).response()
