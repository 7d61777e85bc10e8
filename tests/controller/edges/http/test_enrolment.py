"""Enrolling and revoking over HTTP."""

from __future__ import annotations

import httpx
import pytest

from controller.edges.http.app import make_app
from controller.edges.http.server import serve
from tests.controller.edges.http.checks import problem
from tests.controller.edges.http.desk import BEARER, SETTINGS, TOKEN, Desk
from tests.controller.edges.http.front import LAPTOP, PHONE, Front


def test_a_token_is_made_for_a_name(http: httpx.Client, front: Front) -> None:
    answer = http.post("/api/v1/agents/tablet/token", json={})
    assert answer.status_code == 200
    assert answer.json() == {
        "name": "tablet",
        "token": "secret.pin",
        "until": 1_700_000_900.0,
        "join": "192.0.2.1:8656",
        "role": "terminal",
        "terminal": "tablet",
    }
    assert front.known["tablet"].token_until == 1_700_000_900.0
    assert "Tablet" in problem(http.post("/api/v1/agents/Tablet/token", json={}), 409)["detail"]


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


def test_an_agent_is_revoked_once(http: httpx.Client, front: Front) -> None:
    answer = http.delete("/api/v1/agents/phone")
    assert (answer.status_code, answer.json()["changed"]) == (200, True)
    assert not http.delete("/api/v1/agents/phone").json()["changed"]
    assert front.known["phone"].revoked_at == 1_700_000_001.0
    assert "laptop, phone" in problem(http.delete("/api/v1/agents/nobody"), 404)["detail"]


def test_who_was_enrolled_is_told(http: httpx.Client) -> None:
    told = {one["name"]: one for one in http.get("/api/v1/agents").json()}
    assert (told["phone"]["standing"], told["phone"]["peer"]) == ("connected", PHONE.peer)
    laptop = told["laptop"]
    assert (laptop["standing"], laptop["revoked_at"]) == ("revoked", LAPTOP.revoked_at)
    assert (laptop["tried_at"], laptop["tried_from"]) == (LAPTOP.tried_at, LAPTOP.tried_from)


def test_refusals_are_counted(http: httpx.Client) -> None:
    assert 'bicast_agent_refusals_total{reason="token_used"} 3.0' in http.get("/metrics").text


def test_a_controller_without_agents_says_how_to_have_them(desk: Desk) -> None:
    running = serve(make_app(desk.read, desk.program, desk.decisions, desk, TOKEN), SETTINGS)
    with httpx.Client(base_url=f"http://{running.endpoint}", headers=BEARER, trust_env=False) as http:
        asked = http.get("/api/v1/agents")
        for answer in (asked, http.post("/api/v1/agents/phone/token", json={}), http.delete("/api/v1/agents/phone")):
            assert "`agents: {}` under `controller:`" in problem(answer, 409)["detail"]
        assert http.get("/metrics").status_code == 200
    running.stop()
