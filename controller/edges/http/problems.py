# SPDX-License-Identifier: Apache-2.0
"""Errors of the API as problem details, RFC 9457.

`type` is always about:blank, so `title` is the status' own phrase (section 4.2.1). `detail` says what happened and what
to do. `errors` names each wrong place in the request.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

MEDIA_TYPE = "application/problem+json"
LONGEST_ECHO = 100  # characters
WHERE_TO_LOOK = "/api/v1/openapi.json lists all paths"

SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Problem details, RFC 9457",
    "required": ["type", "title", "status", "detail", "instance"],
    "additionalProperties": False,
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string", "description": "the phrase of the status"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "what happened and what to do"},
        "instance": {"type": "string", "description": "the requested path"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["where", "value", "expected"],
                "additionalProperties": False,
                "properties": {"where": {"type": "string"}, "value": {}, "expected": {"type": "string"}},
            },
        },
    },
}

EXPECTED = {
    "missing": "a value: this key is required",
    "extra_forbidden": "no such key",
    "model_attributes_type": "a JSON object",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One invalid part of a request."""

    where: str
    value: object
    expected: str


def problem(
    scope: Scope,
    status: int,
    detail: str,
    faults: Sequence[Fault] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": quote(scope["path"]),
    }
    if faults:
        body["errors"] = [asdict(fault) for fault in faults]
    # ASCII only: received JSON may contain lone surrogates, which UTF-8 cannot encode.
    return Response(json.dumps(body, allow_nan=False).encode("ascii"), status, headers, MEDIA_TYPE)


def on_http_exception(request: Request, error: Exception) -> Response:
    """Answer what the framework refuses: an unknown route, a wrong method, a body that is no text."""
    assert isinstance(error, HTTPException)
    path = quote(request.url.path)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return problem(request.scope, 404, f"no resource at {path}; {WHERE_TO_LOOK}")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(sorted(_methods(request)))
        detail = f"{path} allows {allowed}, not {request.method}"
        return problem(request.scope, 405, detail, headers={"Allow": allowed})
    if error.status_code == HTTPStatus.BAD_REQUEST:
        return malformed(request, [Fault("body", None, "JSON in UTF-8 without very deep nesting or very long numbers")])
    return problem(request.scope, error.status_code, error.detail, headers=error.headers)


def _methods(request: Request) -> set[str]:
    """Return the methods of all routes at this path: the framework names only the first route's."""
    there = (route for route in request.app.routes if isinstance(route, Route))
    found = (route.methods or set() for route in there if route.matches(request.scope)[0] is not Match.NONE)
    return set().union(*found)


def on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return malformed(request, [_fault(one, error.body) for one in error.errors()])


def on_failure(request: Request, _error: Exception) -> Response:
    """Answer without details: the server logs the error."""
    return problem(request.scope, 500, "the controller failed on this request; its log shows the line")


def malformed(request: Request, faults: Sequence[Fault]) -> Response:
    detail = "; ".join(f"{fault.where}: expected {fault.expected}" for fault in faults)
    return problem(request.scope, 422, f"nothing was done. {detail}", faults)


def described(*reasons: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": reason, "content": content} for group in reasons for status, reason in group.items()
    }


def _fault(error: Mapping[str, Any], body: object) -> Fault:
    where = ".".join(str(step) for step in error["loc"])
    kind, value = error["type"], error["input"]
    if kind == "json_invalid":
        return Fault("body", _echo(body), f"JSON ({error['ctx']['error']} at character {error['loc'][1]})")
    if kind == "missing":
        value = None
    return Fault(where, _echo(value), EXPECTED.get(kind) or error["msg"].removeprefix("Input should be "))


def _echo(value: object) -> object:
    """Return a short value as it was sent, if JSON can express it, otherwise its beginning."""
    plain = value is None or isinstance(value, bool | str) or (isinstance(value, int | float) and math.isfinite(value))
    text = value if isinstance(value, str) else json.dumps(value, default=repr)
    if len(text) > LONGEST_ECHO:
        return text[:LONGEST_ECHO] + "..."
    return value if plain else text
