# SPDX-License-Identifier: Apache-2.0
"""An override is stored whole, or refused whole with the reason."""

from __future__ import annotations

import httpx
import pytest

from controller.protocol.requests import Impossible, OverrideResult
from tests.controller.edges.http.conftest import problem
from tests.controller.edges.http.fake_core import RELAYED, START, FakeCore
from tests.controller.edges.http.fake_enroller import PHONE, FakeEnroller


def test_mode_of_all_is_set_only_at_its_own_path(http: httpx.Client, fake_core: FakeCore) -> None:
    problem(http.put("/api/v1/terminals/all/mode", json={"mode": "off"}), 404)
    assert fake_core.snapshot == START
    answer = http.put("/api/v1/mode", json={"mode": "off"}).json()
    assert len(answer["done"]) == 2
    assert {one.mode for one in fake_core.snapshot.terminals} == {"off"}


@pytest.mark.parametrize(
    ("wish", "where", "value", "expected"),
    [
        ({"mode": "fast"}, "body.mode", "fast", "'bicast', 'single', 'off', 'auto' or 'file'"),
        ({"mode": ["off"]}, "body.mode", '["off"]', "'bicast', 'single', 'off', 'auto' or 'file'"),
        ({}, "body.mode", None, "a value: this key is required"),
        ({"mode": "off", "till": 3}, "body.till", 3, "no such key"),
        (["mode"], "body", '["mode"]', "a JSON object"),
        ({"mode": "x" * 500}, "body.mode", "x" * 100 + "...", "'bicast', 'single', 'off', 'auto' or 'file'"),
    ],
)
def test_malformed_override_names_place_value_and_expectation(
    http: httpx.Client, fake_core: FakeCore, wish: object, where: str, value: object, expected: str
) -> None:
    body = problem(http.put("/api/v1/terminals/client/mode", json=wish), 422)
    assert body["errors"] == [{"where": where, "value": value, "expected": expected}]
    assert fake_core.snapshot is START


def test_a_budget_reset_twice_is_answered_twice(http: httpx.Client, fake_core: FakeCore) -> None:
    for _ in range(2):
        answer = http.delete("/api/v1/gateways/home/uplinks/lte/used").json()
        assert answer["done"] == ["lte of home has used nothing of its budget"]
    assert fake_core.budgets_set == [("home", "lte", 0)] * 2
    assert "'dsl'" in problem(http.delete("/api/v1/gateways/home/uplinks/dsl/used"), 404)["detail"]


def test_a_budget_reset_can_be_undone(http: httpx.Client, fake_core: FakeCore) -> None:
    place = "/api/v1/gateways/home/uplinks/lte/used"
    assert http.put(place, json={"bytes": 7}).json()["done"] == ["lte of home has used 7 bytes of its budget"]
    for wrong in (-1, 10**15 + 1, True, "7", 7.5):
        problem(http.put(place, json={"bytes": wrong}), 422)
    assert fake_core.budgets_set == [("home", "lte", 7)]


def test_a_token_is_withdrawn_and_the_agent_stays(http: httpx.Client, fake_enroller: FakeEnroller) -> None:
    place = "/api/v1/agents/phone/token"
    http.post(place, json={})
    assert [http.delete(place).json()["changed"] for _ in range(2)] == [True, False]
    assert fake_enroller.known["phone"] == PHONE
    problem(http.delete("/api/v1/agents/nobody/token"), 404)


@pytest.mark.parametrize(
    "garbage",
    [
        *(b"", b"\xff\xfe\xfd", b'{"mode": "\\ud800"}', b'{"mode": NaN}'),
        *(b'{"mode": ' + b"9" * 5000 + b"}", b"[" * 16000, b"null"),
    ],
)
def test_garbage_body_is_refused_and_changes_nothing(http: httpx.Client, fake_core: FakeCore, garbage: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    body = problem(http.put("/api/v1/terminals/client/mode", content=garbage, headers=headers), 422)
    assert body["errors"][0]["where"].startswith("body")
    assert fake_core.snapshot is START


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/api/v1/status", "/api/v1/program"])
def test_core_that_does_not_answer_is_unavailable(http: httpx.Client, fake_core: FakeCore, path: str) -> None:
    fake_core.silent = True
    assert "did not answer" in problem(http.get(path), 503)["detail"]
    assert "did not answer" in problem(http.put("/api/v1/mode", json={"mode": "off"}), 503)["detail"]


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
    told = problem(http.put("/api/v1/relays/oslo", json=wish), status)["detail"]
    assert "expected" in told or "zone" in told
    assert not fake_core.relays
