# SPDX-License-Identifier: Apache-2.0
"""What is read is what the snapshot says, and names what is not there."""

from __future__ import annotations

import httpx
import pytest

from tests.controller.edges.http.checks import problem
from tests.controller.edges.http.desk import Desk


def test_a_program_is_listed_in_the_order_in_which_a_switch_looks(http: httpx.Client) -> None:
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
def test_what_is_not_there_is_named(http: httpx.Client, path: str, named: str) -> None:
    assert named in problem(http.get(path), 404)["detail"]


def test_a_method_that_a_route_lacks_is_told_with_those_it_has(http: httpx.Client) -> None:
    answer = http.delete("/api/v1/terminals/client/mode")
    assert "PUT" in problem(answer, 405)["detail"]
    assert answer.headers["allow"] == "PUT"


def test_a_failure_of_ours_is_a_problem_that_shows_nothing_of_the_inside(http: httpx.Client, desk: Desk) -> None:
    desk.snapshot = None  # type: ignore[assignment]
    body = problem(http.get("/api/v1/gateways"), 500)
    assert "NoneType" not in str(body)
