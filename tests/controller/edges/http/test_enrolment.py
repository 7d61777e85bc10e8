# SPDX-License-Identifier: Apache-2.0
"""Enrolling and revoking over HTTP."""

from __future__ import annotations

import httpx
import pytest

from tests.controller.edges.http.checks import problem
from tests.controller.edges.http.front import PHONE, Front


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({}, 422),  # a page of somebody else's could make a browser send it
        ({"content": b"{}", "headers": {"Content-Type": "text/plain"}}, 415),
        ({"data": {"a": "b"}}, 415),
        ({"json": {"name": "phone"}}, 422),
    ],
)
def test_no_page_of_somebody_elses_can_have_a_token_made(
    http: httpx.Client, front: Front, sent: dict[str, object], status: int
) -> None:
    problem(http.post("/api/v1/agents/phone/token", **sent), status)  # type: ignore[arg-type]
    assert front.known["phone"] is PHONE


def test_refusals_are_counted(http: httpx.Client) -> None:
    assert 'bicast_agent_refusals_total{reason="token_used"} 3.0' in http.get("/metrics").text
