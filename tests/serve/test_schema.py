"""The running service against its own description."""

import warnings
from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

# Of /v1/search and others that take several kinds of bodies JSON is made up here; npy files and
# pictures are in test_service.
JSON_ROUTES = {("POST", "/v1/search"), ("POST", "/v1/rerank"), ("POST", "/v1/compare")}
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)


@pytest.fixture(scope="module")
def schema(pictures):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return schemathesis.openapi.from_url(f"{pictures.url}/openapi.json")


def operations(schema):
    return [result.ok() for result in schema.get_all_operations()]


def test_every_route_is_described(schema):
    found = {(one.method.upper(), one.path) for one in operations(schema)}
    assert found >= JSON_ROUTES | {
        ("GET", "/health"), ("GET", "/metrics"), ("GET", "/v1/info"), ("GET", "/v1/explain"),
        ("GET", "/v1/items/{id}/neighbors"), ("POST", "/v1/items"), ("DELETE", "/v1/items/{id}"),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_answers_are_as_described(schema):
    for operation in operations(schema):
        if operation.path in ("/v1/curves", "/v1/describe"):
            continue  # asked for in test_page: the first has no input, the other wants pictures

        @settings(
            max_examples=15, deadline=None, derandomize=True, database=None,
            phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        def check(case):
            if case.method == "POST" and case.media_type not in (None, "application/json"):
                return
            case.call_and_validate(checks=CHECKS)

        for mode in schemathesis.GenerationMode:
            strategy = operation.as_strategy(generation_mode=mode)
            with suppress(Unsatisfiable):  # what takes no input cannot be asked wrongly
                given(case=strategy)(check)()
