"""The service put together: routes, errors, the gate in front of them, the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from kinrank._version import __version__
from kinrank.serve import problems
from kinrank.serve.explore import INDEX, PLAIN, served_methods
from kinrank.serve.following import FollowedStore, Following
from kinrank.serve.gate import Gate
from kinrank.serve.group_models import CorrectionRequest
from kinrank.serve.group_routes import router as group_router
from kinrank.serve.models import CompareRequest, ItemsRequest, RerankRequest, SearchRequest
from kinrank.serve.page_routes import router as page_router
from kinrank.serve.routes import router
from kinrank.serve.service import Service
from kinrank.serve.sorting import Sorting
from kinrank.serve.work import Workers

_SENT = (SearchRequest, RerankRequest, ItemsRequest, CompareRequest, CorrectionRequest)
_ABOUT = "Nearest-neighbour search, right the second time. Errors are problem details (RFC 9457)."


def create_app(service: Service, followed: FollowedStore | None = None) -> FastAPI:
    """The service as an ASGI application; followed : the store of the index, to keep up with."""
    settings = service.settings
    workers = Workers(int(settings.threads or 1), settings.max_waiting, settings.timeout)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        following = None if followed is None else Following(service, followed, workers)
        if following is not None:
            following.start()
        yield
        if following is not None:
            await asyncio.to_thread(following.stop)
        workers.close()

    app = FastAPI(
        title="kinrank",
        version=__version__,
        description=_ABOUT,
        docs_url=None,  # its pages load scripts from the network
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    app.state.sorting = Sorting(service)
    app.state.workers = workers
    app.include_router(page_router)
    app.include_router(group_router)
    app.include_router(router)
    problems.install(app)
    app.add_middleware(Gate, settings=settings, metrics=service.metrics)
    describe = app.openapi
    app.openapi = lambda: _complete(describe(), service)  # type: ignore[method-assign]
    return app


def _complete(schema: dict[str, Any], service: Service) -> dict[str, Any]:
    """With the bodies that are read by hand, the width and limits of this service, its token."""
    components = schema.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    template = "#/components/schemas/{model}"
    made = models_json_schema([(model, "validation") for model in _SENT], ref_template=template)
    # Components that models share become their own.
    schemas.update(json.loads(json.dumps(made[1]["$defs"])))
    for model in ("SearchRequest", "ItemsRequest", "QueryBody"):
        for name in ("vector", "vectors"):
            _set_width(schemas[model]["properties"].get(name, {}), service.index.width)
    _set_limits(schema, service)
    if service.settings.token is not None:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"token": []}]
    return schema


def _set_limits(schema: dict[str, Any], service: Service) -> None:
    """What this service refuses although others may take it."""
    settings = service.settings
    schemas = schema["components"]["schemas"]
    for model, name, limit, value in (
        ("SearchRequest", "k", "maximum", settings.max_k),
        ("RerankRequest", "k", "maximum", settings.max_k),
        ("SearchRequest", "vectors", "maxItems", settings.max_batch),
        ("ItemsRequest", "vectors", "maxItems", settings.max_batch),
        ("RerankRequest", "candidates", "maxItems", settings.max_pool),
        ("RerankRequest", "method", "enum", served_methods()),
        ("MethodBody", "method", "enum", [PLAIN, INDEX, *served_methods()]),
    ):
        schemas[model]["properties"][name][limit] = value
    for path in schema["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", []):
                if parameter["name"] == "k":
                    parameter["schema"]["maximum"] = settings.max_k


def _set_width(schema: dict[str, Any], width: int) -> None:
    """Vectors of this index have so many numbers."""
    for part in schema.get("anyOf", [schema]):
        items = part.get("items", {})
        if items.get("type") == "array":
            _set_width(items, width)
        elif part.get("type") == "array":
            part["minItems"] = part["maxItems"] = width
