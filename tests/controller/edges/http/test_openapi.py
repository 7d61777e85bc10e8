# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document is true: what is generated from it is answered as it says."""

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
from tests.controller.edges.http.desk import BEARER, RELAYED, SHARED, TOKEN, WITH_CLASSES, Desk

core = Desk()
document = make_app(core.read, core.program, core.decisions, core, TOKEN).openapi()
schema = schemathesis.openapi.from_dict(document)


generously = settings(max_examples=20, suppress_health_check=list(HealthCheck))


def authorised(case: Case) -> dict[str, str]:
    """Return the token's header for a case that is to have one: schemathesis also tries what happens without."""
    return BEARER if "Authorization" in case.headers else {}


def answers_as_described(case: Case, serving: Serving) -> None:
    """All of schemathesis' checks: status, type, schema and headers of the answer, refusal of what is malformed."""
    case.call_and_validate(base_url=f"http://{serving.endpoint}", headers=authorised(case), timeout=30)


def answers_about_what_is_there_as_described(case: Case, serving: Serving, desk: Desk) -> None:
    desk.snapshot = replace(WITH_CLASSES, access_points=SHARED.access_points, relays=RELAYED.relays)
    names = {"gateways": "home", "terminals": "client", "agents": "phone", "relays": "tokyo"}
    below = {key: value for key, value in {"traffic": "voip", "uplink": "lte"}.items() if f"{{{key}}}" in case.path}
    case.path_parameters = {"name": names[case.path.split("/")[3]], **below}
    answer = case.call_and_validate(base_url=f"http://{serving.endpoint}", headers=authorised(case), timeout=30)
    assert answer.status_code != 404


def of_each_operation(check: Callable[..., None], path_regex: str = "") -> dict[str, Callable[..., None]]:
    """Return a test for each operation, each with a name of its own: pytest names schemathesis' items by function."""
    tests: dict[str, Callable[..., None]] = {}
    for operation in (each.ok() for each in schema.include(path_regex=path_regex).get_all_operations()):
        alone = schema.include(path=operation.path, method=operation.method)
        tests[f"test_{check.__name__}[{operation.label}]"] = alone.parametrize()(generously(copied(check)))
    return tests


def copied(check: Callable[..., None]) -> Callable[..., None]:
    """Return the same function once more: schemathesis and hypothesis write on what they are given."""
    return FunctionType(check.__code__, check.__globals__, check.__name__, check.__defaults__, check.__closure__)


globals().update(of_each_operation(answers_as_described))
globals().update(of_each_operation(answers_about_what_is_there_as_described, "{name}"))


@pytest.mark.parametrize("path", sorted(document["paths"]))
def test_what_fails_is_described_as_a_problem(path: str) -> None:
    for operation in document["paths"][path].values():
        for status, answer in operation["responses"].items():
            assert (list(answer["content"]) == [problems.MEDIA_TYPE]) == (status != "200")


def test_the_document_that_is_served_is_the_one_that_is_tested(http: httpx.Client) -> None:
    assert http.get("/api/v1/openapi.json").json() == document
    assert document["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    assert document["security"] == [{"token": []}]
