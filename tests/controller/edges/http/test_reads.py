# SPDX-License-Identifier: Apache-2.0
"""Reads match the snapshot, and unknown names are reported."""

from __future__ import annotations

import httpx
import pytest

from tests.controller.edges.http.conftest import problem
from tests.controller.edges.http.fake_core import FakeCore


def test_program_is_listed_in_the_order_of_matching(http: httpx.Client) -> None:
    program = http.get("/api/v1/gateways/home/program").json()
    assert [(flow["table"], flow["priority"]) for flow in program["flows"]] == [(0, 20), (0, 10), (1, 100)]
    assert program["flows"][2]["actions"] == [{"do": "dec_ttl"}, {"do": "to_group", "group_id": 0x62000001}]
    assert program["flows"][2]["match"] == {"eth_type": 0x0800, "in_port": 3}
    assert program["groups"][0]["buckets"][0]["actions"] == [
        {"do": "set_field", "field": "eth_dst", "value": "08:00:27:33:6d:a7"},
        {"do": "output", "port": 1},
    ]
    assert program["meters"] == [{"meter_id": 0x6200, "rate_kbps": 100, "burst_kbits": 20}]
    assert http.get("/api/v1/program", params={"gateway": "home"}).json() == [program]
    assert http.get("/api/v1/program").json() == [program], "the gateway without a program is left out"


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/api/v1/gateways/attic", "attic"),
        ("/api/v1/program?gateway=attic", "attic"),
        ("/api/v1/gateways/shed/program", "0000000000000002"),
        ("/api/v1/terminals/phone", "phone"),
        ("/api/v1/terminals/%F0%9F%93%B1%00%22", "no terminal is named"),
        ("/api/v1/nothing", "/api/v1/openapi.json"),
    ],
)
def test_unknown_resource_is_named(http: httpx.Client, path: str, named: str) -> None:
    assert named in problem(http.get(path), 404)["detail"]


def test_unsupported_method_lists_the_supported_ones(http: httpx.Client) -> None:
    answer = http.delete("/api/v1/terminals/client/mode")
    assert "PUT" in problem(answer, 405)["detail"]
    assert answer.headers["allow"] == "PUT"


def test_internal_error_reveals_no_details(http: httpx.Client, fake_core: FakeCore) -> None:
    fake_core.snapshot = None  # type: ignore[assignment]
    body = problem(http.get("/api/v1/gateways"), 500)
    assert "NoneType" not in str(body)
