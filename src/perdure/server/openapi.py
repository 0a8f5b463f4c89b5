"""The API's description: FastAPI's for the control routes, and the worker routes beside them in the same form."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from perdure.server.routes.functions import WORKER_OPERATIONS
from perdure.wire import routes
from perdure.wire.bodies_screen import SignInBody

_REF = "#/components/schemas/{model}"
_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "details"],
            "properties": {
                "code": {"type": "string", "description": "Stable across releases."},
                "message": {"type": "string", "description": "The thing, expected, found, and what to do next."},
                "details": {"type": "object"},
            },
        }
    },
}
_ERROR_REPLY: dict[str, Any] = {
    "description": "Why not, and what to do",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}


def describe(app: FastAPI, version: str) -> dict[str, Any]:
    """Return the OpenAPI document of all routes. Each asks for a key, except those in `routes.OPEN`."""
    document = get_openapi(
        title="Perdure",
        version=version,
        description="A durable runtime for AI agents. A 2xx on anything that changes something means it is durable.",
        routes=app.routes,
    )
    schemas: dict[str, Any] = document["components"]["schemas"]
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    schemas["Error"] = _ERROR
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"key": []}]
    paths: dict[str, Any] = document["paths"]
    paths.update(_worker_paths(schemas))
    paths[routes.MCP] = {"post": _mcp()}
    paths.update(_a2a())
    paths.setdefault(routes.SESSION, {}).update(_session_operations(schemas))
    for path in sorted(routes.OPEN):
        done = {"200": {"description": "Yes", "content": {"application/json": {"schema": {"type": "object"}}}}}
        paths[path] = {"get": {"summary": "Is it there?", "security": [], "responses": done, "tags": ["open"]}}
    for operations in paths.values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = _ERROR_REPLY
    return document


def _mcp() -> dict[str, Any]:
    content = {"content": {"application/json": {"schema": {"type": "object"}}}}
    return {
        "tags": ["mcp"],
        "summary": "Rooms for programs that speak MCP: streamable HTTP, without sessions",
        "operationId": "mcp",
        "requestBody": {"required": True, **content},
        "responses": {"200": {"description": "A reply of JSON-RPC", **content}},
    }


def _a2a() -> dict[str, Any]:
    content = {"content": {"application/json": {"schema": {"type": "object"}}}}
    card: dict[str, Any] = {"tags": ["a2a"], "responses": {"200": {"description": "A card", **content}}}
    agent = {"name": "agent", "in": "path", "required": True, "schema": {"type": "string"}}
    said = {"200": {"description": "A reply of JSON-RPC, or a stream of such", **content}}
    asked: dict[str, Any] = {
        "tags": ["a2a"],
        "summary": "A published agent, for programs that speak A2A by JSON-RPC: 1.0, and 0.3",
        "operationId": "a2a",
        "parameters": [agent],
        "requestBody": {"required": True, **content},
        "responses": said,
    }
    each = {**card, "summary": "The card of a published agent", "operationId": "a2a_card", "parameters": [agent]}
    only = {**card, "summary": "The card of the only published agent", "operationId": "a2a_only_card"}
    return {
        routes.A2A: {"post": asked},
        routes.A2A + routes.A2A_CARD: {"get": each},
        routes.A2A_CARD: {"get": only},
    }


def _session_operations(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return what a browser signs in and out with; `App` answers it before it asks for a key."""
    schema = TypeAdapter(SignInBody).json_schema(ref_template=_REF)
    schemas["SignInBody"] = schema
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": _REF.format(model="SignInBody")}}}}
    done: dict[str, Any] = {"204": {"description": "Done; the reply sets a cookie"}}
    shared: dict[str, Any] = {"tags": ["open"], "security": []}
    return {
        "post": {**shared, "summary": "Sign a browser in by a link, once", "requestBody": body, "responses": {**done}},
        "delete": {**shared, "summary": "Sign a browser out", "responses": {**done}},
    }


def _worker_paths(schemas: dict[str, Any]) -> dict[str, Any]:
    kinds = {kind for operation in WORKER_OPERATIONS.values() for kind in (operation.takes, operation.gives) if kind}
    adapters: list[tuple[type, Any, TypeAdapter[Any]]] = [
        (kind, "validation", TypeAdapter(kind)) for kind in sorted(kinds, key=lambda kind: kind.__name__)
    ]
    found, definitions = TypeAdapter.json_schemas(adapters, ref_template=_REF)
    schemas.update(definitions.get("$defs", {}))
    paths: dict[str, Any] = {}
    for path, operation in WORKER_OPERATIONS.items():
        done: dict[str, Any] = {"description": "A stream of empty lines", "content": {"text/plain": {}}}
        if operation.gives is not None:
            gives = found[operation.gives, "validation"]
            done = {"description": "Done, and durable", "content": {"application/json": {"schema": gives}}}
        takes = {"required": True, "content": {"application/json": {"schema": found[operation.takes, "validation"]}}}
        paths[path] = {
            "post": {
                "tags": ["worker"],
                "summary": operation.says,
                "operationId": "worker_" + operation.run.__name__,
                "requestBody": takes,
                "responses": {"200": done},
            }
        }
    return paths
