"""The OpenAPI 3.1 description of the controller's interface, made of its table of calls: pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from headrace.controller.call import Call
from headrace.wire.control import BINARY
from headrace.wire.messages import ErrorAnswer

_REFERENCE = "#/components/schemas/{name}"
_JSON = "application/json"


def describe(calls: Sequence[Call], *, version: str) -> dict[str, Any]:
    """Return the description as a JSON object."""
    forms = [form for call in calls for form in (call.takes, call.answers) if form]
    kinds = list(dict.fromkeys([*forms, ErrorAnswer]))
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    named: dict[Any, Any] = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call, named)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "headrace controller",
            "version": version,
            "description": "Trainers and agents report to it, and it gives storage bandwidth.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(call: Call, schemas: dict[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": call.summary,
        "operationId": _identifier(call),
        "parameters": _parameters(call),
        "responses": {
            "default": {"description": "Refused", "content": _content(schemas[ErrorAnswer], ())}
        },
    }
    if call.takes:
        body = _content(schemas[call.takes], (BINARY,))
        found["requestBody"] = {"required": True, "content": body}
    if call.answers:
        binary = (BINARY,) if call.takes else ()
        said = {"description": "Done", "content": _content(schemas[call.answers], binary)}
        found["responses"]["200"] = said
    else:
        found["responses"]["204"] = {"description": "Done"}
    return found


def _parameters(call: Call) -> list[dict[str, Any]]:
    inside = [part[1:-1] for part in call.path.split("/") if part.startswith("{")]
    return [
        *(
            {"name": n, "in": "path", "required": True, "schema": {"type": "string"}}
            for n in inside
        ),
        *(
            {"name": n, "in": "query", "schema": _text_of(values)}
            for n, values in call.queries.items()
        ),
    ]


def _text_of(values: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)} if values else {"type": "string"}


def _content(schema: Any, others: Iterable[str]) -> dict[str, Any]:
    return {kind: {"schema": schema} for kind in (_JSON, *others)}


def _identifier(call: Call) -> str:
    words = [part.strip("{}") for part in call.path.split("/")[2:]]
    return "_".join([call.method.lower(), *words])
