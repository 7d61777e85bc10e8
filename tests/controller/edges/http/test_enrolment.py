# SPDX-License-Identifier: Apache-2.0
"""Enrolment and revocation over HTTP."""

from __future__ import annotations

import httpx
import pytest

from tests.controller.edges.http.checks import problem
from tests.controller.edges.http.fake_enroller import PHONE, FakeEnroller


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({}, 422),  # a foreign page could make a browser send it
        ({"content": b"{}", "headers": {"Content-Type": "text/plain"}}, 415),
        ({"data": {"a": "b"}}, 415),
        ({"json": {"name": "phone"}}, 422),
    ],
)
def test_cross_site_request_makes_no_token(
    http: httpx.Client, fake_enroller: FakeEnroller, sent: dict[str, object], status: int
) -> None:
    problem(http.post("/api/v1/agents/phone/token", **sent), status)  # type: ignore[arg-type]
    assert fake_enroller.known["phone"] is PHONE


def test_refusals_are_counted(http: httpx.Client) -> None:
    assert 'bicast_agent_refusals_total{reason="token_used"} 3.0' in http.get("/metrics").text
