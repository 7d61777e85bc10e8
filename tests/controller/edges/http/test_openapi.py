# SPDX-License-Identifier: Apache-2.0
"""Each answer matches the OpenAPI document, for requests generated from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import FunctionType

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case

from controller.edges.http import problems
from controller.edges.http.app import make_app
from controller.edges.http.server import Serving
from tests.controller.edges.http.fake_core import BEARER, RELAYED, SHARED, TOKEN, WITH_CLASSES, FakeCore

core = FakeCore()
document = make_app(core.read, core.program, core.decisions, core, TOKEN).openapi()
schema = schemathesis.openapi.from_dict(document)
schema = schema.exclude(path="/api/v1/page/stream")  # its answer never ends: test_stream.py
schema = schema.exclude(path="/api/v1/page/session", method="POST")  # for browsers without a session: test_page.py


generously = settings(max_examples=20, suppress_health_check=list(HealthCheck))


def authorised(case: Case) -> dict[str, str]:
    """Return the token's header, unless schemathesis tests a request without it."""
    return BEARER if "Authorization" in case.headers else {}


def answers_as_described(case: Case, serving: Serving) -> None:
    """Run all checks of schemathesis: status, type, schema and headers of the answer, and refusal of malformed
    requests.
    """
    case.call_and_validate(base_url=f"http://{serving.endpoint}", headers=authorised(case), timeout=30)


def answers_about_what_is_there_as_described(case: Case, serving: Serving, fake_core: FakeCore) -> None:
    fake_core.snapshot = replace(WITH_CLASSES, access_points=SHARED.access_points, relays=RELAYED.relays)
    names = {"gateways": "home", "terminals": "client", "agents": "phone", "relays": "tokyo"}
    below = {key: value for key, value in {"traffic": "voip", "uplink": "lte"}.items() if f"{{{key}}}" in case.path}
    case.path_parameters = {"name": names[case.path.split("/")[3]], **below}
    answer = case.call_and_validate(base_url=f"http://{serving.endpoint}", headers=authorised(case), timeout=30)
    assert answer.status_code != 404


def of_each_operation(check: Callable[..., None], path_regex: str = "") -> dict[str, Callable[..., None]]:
    """Return a test for each operation with its own name, since pytest names schemathesis' items by function."""
    tests: dict[str, Callable[..., None]] = {}
    for operation in (each.ok() for each in schema.include(path_regex=path_regex).get_all_operations()):
        alone = schema.include(path=operation.path, method=operation.method)
        tests[f"test_{check.__name__}[{operation.label}]"] = alone.parametrize()(generously(copied(check)))
    return tests


def copied(check: Callable[..., None]) -> Callable[..., None]:
    """Return a copy of the function, since schemathesis and hypothesis set attributes on it."""
    return FunctionType(check.__code__, check.__globals__, check.__name__, check.__defaults__, check.__closure__)


globals().update(of_each_operation(answers_as_described))
globals().update(of_each_operation(answers_about_what_is_there_as_described, "{name}"))


@pytest.mark.parametrize("path", sorted(document["paths"]))
def test_failures_are_described_as_problems(path: str) -> None:
    for operation in document["paths"][path].values():
        for status, answer in operation["responses"].items():
            assert (list(answer["content"]) == [problems.MEDIA_TYPE]) == (status != "200")


def test_served_document_is_the_tested_one(http: httpx.Client) -> None:
    assert http.get("/api/v1/openapi.json").json() == document
    assert document["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    assert document["security"] == [{"token": []}]
