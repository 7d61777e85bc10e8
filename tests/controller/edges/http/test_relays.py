"""Relays are told whole, wished for and tried; and what a wish says that none can have is refused with words."""

from __future__ import annotations

from ipaddress import ip_address

import httpx
import pytest

from controller.model.known import PortRange, WishedRelay
from controller.protocol.enrolment import EnrolmentState
from controller.protocol.requests import Impossible, OverrideResult
from tests.controller.edges.http.checks import problem
from tests.controller.edges.http.desk import RELAYED, Desk
from tests.controller.edges.http.front import Front


def test_relays_are_told_with_who_reaches_them_and_in_the_status_too(http: httpx.Client, desk: Desk) -> None:
    assert http.get("/api/v1/relays").json() == []
    desk.snapshot = RELAYED
    (tokyo,) = http.get("/api/v1/relays").json()
    assert tokyo["told"]["connections"] == 3
    assert [(one["gateway"], one["because"]) for one in tokyo["reached"]] == [
        ("home", None),
        ("shed", "no route to host"),
    ]
    status = http.get("/api/v1/status").json()
    assert status["relays"] == [tokyo] == [http.get("/api/v1/relays/tokyo").json()]
    assert status["taking"][0]["terminals"][0]["relayed"] == 120
    assert "there are: tokyo" in problem(http.get("/api/v1/relays/oslo"), 404)["detail"]


def test_a_relay_is_wished_for_changed_and_removed_together_with_its_agent(
    http: httpx.Client, desk: Desk, front: Front
) -> None:
    wish = {"address": "2001:db8::9", "port": 8443, "ports": [{"first": 1, "last": 65535}], "congestion": "bbr"}
    assert http.put("/api/v1/relays/oslo", json=wish).json()["changed"]
    assert desk.relays["oslo"] == WishedRelay(ip_address("2001:db8::9"), 8443, (PortRange(1, 65535),), "bbr")
    assert http.put("/api/v1/relays/oslo", json={"address": "203.0.113.9"}).status_code == 200
    assert desk.relays["oslo"] == WishedRelay(ip_address("203.0.113.9"), 443)
    desk.snapshot = RELAYED
    removed = http.delete("/api/v1/relays/tokyo").json()
    assert removed["done"] == ["tokyo is no relay any more; it carries 3 connections, which end with it"]
    assert front.known["phone"].standing is EnrolmentState.CONNECTED, "nobody else's agent"


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
        ({"address": "203.0.113.9", "port": 0}, 422),
        ({"address": "203.0.113.9", "ports": []}, 422),
        ({"address": "203.0.113.9", "congestion": "bbr; reboot"}, 422),
        ({"port": 443}, 422),
    ],
)
def test_what_can_be_no_relay_is_refused_and_nothing_is_wished(
    http: httpx.Client, desk: Desk, wish: dict[str, object], status: int
) -> None:
    assert (
        "expected" in (told := problem(http.put("/api/v1/relays/oslo", json=wish), status)["detail"]) or "zone" in told
    )
    assert not desk.relays


def test_a_destination_is_told_of_from_each_site(http: httpx.Client, desk: Desk) -> None:
    (told,) = http.post("/api/v1/destinations/8.8.8.8/choice", json={}).json()
    assert (told["choice"]["relays"], told["legs"][2]["because"]) == (["tokyo"], "nobody answers")
    problem(http.post("/api/v1/destinations/example.com/choice", json={}), 409)
    problem(http.post("/api/v1/destinations/8.8.8.8/choice", json={"site": "shed"}), 409)
