"""The OpenAPI 3.1 document, generated from the types that validate requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from ...version import VERSION
from .failures import ErrorAnswer
from .operation import Group, Operation

_REF: Final = "#/components/schemas/{name}"
_REFUSALS: Final = {
    400: "The request does not match this document",
    401: "A token is required",
    403: "The token lacks the scope",
    404: "Not found",
    409: "Conflict with the current state",
    413: "The body is too large",
    415: "Unsupported content type",
    422: "Invalid values",
    429: "Too many requests; try again later",
    503: "The store is unavailable",
}


def document(groups: Sequence[Group]) -> dict[str, Any]:
    """Return the document of all operations in these groups."""
    operations = [operation for group in groups for operation in group.operations]
    types = list(_types(operations))
    schemas, components = msgspec.json.schema_components([type_ for type_, _ in types], ref_template=_REF)
    schema_of = {key: schema for (_, key), schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        path = operation.path.replace(":path}", "}")
        paths.setdefault(f"/api/v1{path}", {})[operation.method.lower()] = _described(operation, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": VERSION, "description": "Durable jobs over HTTP."},
        "tags": [{"name": group.tag, "description": group.about} for group in groups],
        "paths": paths,
        "components": {
            # Through JSON, so that the default () becomes a list.
            "schemas": msgspec.json.decode(msgspec.json.encode(components)),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _types(operations: Iterable[Operation]) -> Iterable[tuple[Any, str]]:
    yield ErrorAnswer, "error"
    for operation in operations:
        for name, type_ in operation.places:
            yield type_, f"{operation.name}.path.{name}"
        for part in ("query", "body", "answer"):
            type_ = getattr(operation, part)
            if type_ is not None and _is_data(operation, part):
                yield type_, f"{operation.name}.{part}"


def _is_data(operation: Operation, part: str) -> bool:
    return part != "answer" or operation.media == "application/json"


def _described(operation: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": [*_places(operation, schema_of), *_query(operation, schema_of), *_headers(operation)],
        "responses": _responses(operation, schema_of),
        "security": [] if operation.needs == "nothing" else [{"token": []}],
        "x-needs": operation.needs,
    }
    if operation.description:
        described["description"] = operation.description
    if operation.body is not None:
        schema = schema_of[f"{operation.name}.body"]
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return described


def _places(operation: Operation, schema_of: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": schema_of[f"{operation.name}.path.{name}"]}
        for name, _ in operation.places
    ]


def _query(operation: Operation, schema_of: dict[str, Any]) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    _, components = msgspec.json.schema_components([operation.query], ref_template=_REF)
    described = components[operation.query.__name__]
    required = set(described.get("required", ()))
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _unwrapped(schema)}
        for name, schema in described["properties"].items()
    ]


def _headers(operation: Operation) -> list[dict[str, Any]]:
    schema = {"type": "string"}
    return [{"name": n, "in": "header", "required": False, "schema": schema} for n in operation.request_headers]


def _unwrapped(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a field's schema without null, which a query cannot carry."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) != 1 or "anyOf" not in schema:
        return schema
    kept = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    return {**kept, **choices[0]}


def _responses(operation: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    refused = {"application/json": {"schema": schema_of["error"]}}
    answers: dict[str, Any] = {
        str(status): {"description": about, "content": refused} for status, about in _REFUSALS.items()
    }
    for status in (operation.status, *operation.also):
        answers[str(status)] = _success(operation, schema_of)
    for status, about in operation.besides:
        answers[str(status)] = {"description": about, **({"content": refused} if status >= 400 else {})}
    return answers


def _success(operation: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    if operation.answer is type(None):
        return {"description": "Done"}
    if not _is_data(operation, "answer"):
        return {"description": operation.summary, "content": {operation.media: {"schema": {}}}}
    content = {"application/json": {"schema": schema_of[f"{operation.name}.answer"]}}
    if operation.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": operation.summary, "content": content}
