# SPDX-License-Identifier: Apache-2.0
"""Relays are told whole, wished for and tried; and what a wish says that none can have is refused with words."""

from __future__ import annotations

import httpx
import pytest

from controller.protocol.requests import Impossible, OverrideResult
from tests.controller.edges.http.checks import problem
from tests.controller.edges.http.desk import RELAYED, Desk
from tests.controller.edges.http.front import Front


def test_a_relay_whose_agent_cannot_be_revoked_is_removed_and_that_it_was_not_is_told(
    http: httpx.Client, desk: Desk, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(name: str) -> OverrideResult:
        raise Impossible(f"{name} is not revoked: the disk is full")

    monkeypatch.setattr(front, "revoke", full)
    desk.snapshot = RELAYED
    removed = http.delete("/api/v1/relays/tokyo").json()
    assert removed["done"] and removed["failed"] == ["tokyo is not revoked: the disk is full"]


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        ({"address": "vps.example"}, 409),
        ({"address": "fe80::1%eth0"}, 409),
        ({"address": "203.0.113.9", "ports": [{"first": 443, "last": 80}]}, 409),
        ({"address": "203.0.113.9", "ports": []}, 422),
        ({"address": "203.0.113.9", "congestion": "bbr; reboot"}, 422),
    ],
)
def test_what_can_be_no_relay_is_refused_and_nothing_is_wished(
    http: httpx.Client, desk: Desk, wish: dict[str, object], status: int
) -> None:
    assert (
        "expected" in (told := problem(http.put("/api/v1/relays/oslo", json=wish), status)["detail"]) or "zone" in told
    )
    assert not desk.relays
