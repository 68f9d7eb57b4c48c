"""The running service against its own description."""

import io
import re
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from PIL import Image

from serve_process import START

ROOT = Path(__file__).parents[2]
# JSON is made up here; npy files and pictures are in test_service and below.
JSON_ROUTES = {("POST", "/v1/search"), ("POST", "/v1/rerank"), ("POST", "/v1/compare")}
# What is right depends on more than a schema can say: widths that are equal, parameters that the
# method has, one of two parameters, attributes that the index has.
RULES = {
    "/v1/rerank",
    "/v1/compare",
    "/v1/explain",
    "/v1/search",
    "/v1/groups/why",
    "/v1/groups/corrections",
    "/v1/groups/{number}",
}


def checks():
    """What every answer has to pass."""
    from schemathesis.checks import not_a_server_error  # late, as it takes a second of every worker
    from schemathesis.specs.openapi import checks

    return (
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.negative_data_rejection,
    )


@pytest.fixture(scope="module")
def schema(pictures):
    return read(pictures)


def read(server):
    import schemathesis

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return schemathesis.openapi.from_url(f"{server.url}/openapi.json", timeout=START)


def operations(schema):
    return [result.ok() for result in schema.get_all_operations()]


def test_every_route_is_described(schema):
    found = {(one.method.upper(), one.path) for one in operations(schema)}
    assert found == JSON_ROUTES | {
        ("GET", "/health"), ("GET", "/metrics"), ("GET", "/v1/info"), ("GET", "/v1/explain"),
        ("GET", "/v1/items/{id}/neighbors"), ("POST", "/v1/items"), ("DELETE", "/v1/items/{id}"),
        ("GET", "/v1/items"), ("GET", "/v1/items/{id}/image"), ("POST", "/v1/describe"),
        ("GET", "/v1/curves"), ("GET", "/v1/groups"), ("GET", "/v1/groups/{number}"),
        ("GET", "/v1/groups/singles"), ("GET", "/v1/groups/questions"), ("GET", "/v1/groups/why"),
        ("GET", "/v1/groups/export"), ("POST", "/v1/groups/corrections"),
    }  # fmt: skip
    page = (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
    assert found == set(re.findall(r"`(GET|POST|DELETE) (/[^?` ]+)", page))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("examples", [8, pytest.param(100, marks=pytest.mark.long)])
def test_answers_are_as_described(schema, mode, examples):
    """What the description allows is answered, what it does not allow is refused, as described."""
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    asked = set()
    for operation in operations(schema):

        @settings(
            max_examples=examples, deadline=None, derandomize=True, database=None,
            phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        def check(case):
            if case.method == "POST" and case.media_type not in (None, "application/json"):
                return
            asked.add((case.method, case.path))
            accepted = () if case.path in RULES else (positive_data_acceptance,)
            case.call_and_validate(checks=(*checks(), *accepted), timeout=START)

        with suppress(Unsatisfiable):  # what takes no input cannot be asked wrongly
            made = operation.as_strategy(generation_mode=GenerationMode(mode))
            given(case=made)(check)()
    assert asked >= JSON_ROUTES | {("POST", "/v1/items"), ("GET", "/v1/items")}


def test_pictures_are_described_as_described(demo):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operation = read(demo)["/v1/describe"]["POST"]
        stream = io.BytesIO()
        picture = Image.new("L", (32, 32), 255)
        picture.paste(0, (12, 4, 20, 28))
        picture.save(stream, "PNG")
        for body, kind, status in (
            (stream.getvalue(), "image/png", 200),
            (b"no picture", "image/png", 422),
            (b"", "image/jpeg", 422),
            (stream.getvalue(), "text/plain", 415),
        ):
            case = operation.Case(body=body, media_type="image/*")
            response = case.call(headers={"Content-Type": kind}, timeout=START)
            assert response.status_code == status
            case.validate_response(response, checks=checks()[:4])
