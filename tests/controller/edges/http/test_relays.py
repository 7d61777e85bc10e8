# SPDX-License-Identifier: Apache-2.0
"""Relays are listed, configured and tried. Invalid overrides are refused with a reason."""

from __future__ import annotations

import httpx
import pytest

from controller.protocol.requests import Impossible, OverrideResult
from tests.controller.edges.http.checks import problem
from tests.controller.edges.http.fake_core import RELAYED, FakeCore
from tests.controller.edges.http.fake_enroller import FakeEnroller


def test_relay_is_removed_even_if_its_revocation_fails(
    http: httpx.Client, fake_core: FakeCore, fake_enroller: FakeEnroller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(name: str) -> OverrideResult:
        raise Impossible(f"{name} is not revoked: the disk is full")

    monkeypatch.setattr(fake_enroller, "revoke", full)
    fake_core.snapshot = RELAYED
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
def test_invalid_relay_is_refused_and_changes_nothing(
    http: httpx.Client, fake_core: FakeCore, wish: dict[str, object], status: int
) -> None:
    assert (
        "expected" in (told := problem(http.put("/api/v1/relays/oslo", json=wish), status)["detail"]) or "zone" in told
    )
    assert not fake_core.relays
