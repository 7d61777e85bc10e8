"""A wish is kept whole, or refused whole with the reason."""

from __future__ import annotations

import httpx
import pytest

from controller.model.config import Mode
from controller.readout.snapshot import ClassView
from tests.controller.edges.http.checks import problem
from tests.controller.edges.http.desk import START, WITH_CLASSES, Desk


def test_a_mode_is_set_and_the_answer_says_what_was_done(http: httpx.Client, desk: Desk) -> None:
    answer = http.put("/api/v1/terminals/client/mode", json={"mode": "single"})
    assert answer.status_code == 200
    assert answer.json() == {
        "done": ["client is now in mode single"],
        "changed": True,
        "messages": 2,
        "failed": [],
    }
    assert [one["mode"] for one in http.get("/api/v1/terminals").json()] == ["single", "bicast"]


@pytest.mark.parametrize(("path", "left"), [("terminals/client/mode", ["bicast", "off"]), ("mode", ["bicast"] * 2)])
def test_a_mode_that_was_set_is_taken_back(http: httpx.Client, desk: Desk, path: str, left: list[str]) -> None:
    http.put("/api/v1/mode", json={"mode": "off"})
    answer = http.put(f"/api/v1/{path}", json={"mode": "file"}).json()
    assert answer["changed"] and answer["done"][0] == "client is left to the file"
    assert [one["mode"] for one in http.get("/api/v1/terminals").json()] == left
    assert not desk.snapshot.terminals[0].mode_wished


def test_the_same_wish_again_changes_nothing_and_says_so(http: httpx.Client, desk: Desk) -> None:
    for path, wish in (
        ("/api/v1/terminals/client/mode", {"mode": "off"}),
        ("/api/v1/terminals/client/active", {"uplink": "lte"}),
        ("/api/v1/mode", {"mode": "off"}),
    ):
        http.put(path, json=wish)
        after_one = desk.snapshot
        again = http.put(path, json=wish).json()
        assert not again["changed"] and again["messages"] == 0
        assert all("already" in sentence for sentence in again["done"])
        assert desk.snapshot == after_one


def test_the_mode_of_all_is_set_at_its_own_place_only(http: httpx.Client, desk: Desk) -> None:
    problem(http.put("/api/v1/terminals/all/mode", json={"mode": "off"}), 404)
    assert desk.snapshot == START
    answer = http.put("/api/v1/mode", json={"mode": "off"}).json()
    assert len(answer["done"]) == 2
    assert {one.mode for one in desk.snapshot.terminals} == {"off"}


@pytest.mark.parametrize("path", ["terminals/client/classes/voip/mode", "classes/voip/mode"])
def test_a_class_has_its_mode_set_and_taken_back_and_its_terminal_keeps_its_own(
    http: httpx.Client, desk: Desk, path: str
) -> None:
    desk.snapshot = WITH_CLASSES
    assert http.put(f"/api/v1/{path}", json={"mode": "single"}).json()["done"] == ["client/voip is in mode single"]
    client = http.get("/api/v1/terminals/client").json()
    assert client["mode"] == "bicast" and not client["mode_wished"]
    assert client["classes"] == [
        {"name": "voip", "mode": "single", "mode_wished": True, "acting": "single"},
        {"name": "backup-job", "mode": "single", "mode_wished": False, "acting": "single"},
    ]
    assert http.put(f"/api/v1/{path}", json={"mode": "file"}).status_code == 200
    assert desk.snapshot.terminals[0].classes[0] == ClassView("voip", Mode.BICAST, False, Mode.BICAST)


@pytest.mark.parametrize(
    ("path", "wish", "status", "named"),
    [
        ("terminals/phone/mode", {"mode": "off"}, 404, "phone"),
        ("terminals/phone/active", {"uplink": "lte"}, 404, "phone"),
        ("terminals/client/active", {"uplink": "moon"}, 409, "wifi, lte"),
        ("terminals/tablet/active", {"uplink": "lte"}, 409, "IPv6"),
    ],
)
def test_an_impossible_wish_is_refused_with_its_reason_and_nothing_is_done(
    http: httpx.Client, desk: Desk, path: str, wish: dict[str, str], status: int, named: str
) -> None:
    assert named in problem(http.put(f"/api/v1/{path}", json=wish), status)["detail"]
    assert desk.snapshot is START


@pytest.mark.parametrize(
    ("wish", "where", "value", "expected"),
    [
        ({"mode": "fast"}, "body.mode", "fast", "'bicast', 'single', 'off', 'auto' or 'file'"),
        ({"mode": 5}, "body.mode", 5, "'bicast', 'single', 'off', 'auto' or 'file'"),
        ({"mode": ["off"]}, "body.mode", '["off"]', "'bicast', 'single', 'off', 'auto' or 'file'"),
        ({}, "body.mode", None, "a value: this key is required"),
        ({"mode": "off", "till": 3}, "body.till", 3, "no such key"),
        (["mode"], "body", '["mode"]', "a JSON object"),
        ({"mode": "x" * 500}, "body.mode", "x" * 100 + "...", "'bicast', 'single', 'off', 'auto' or 'file'"),
    ],
)
def test_a_malformed_wish_names_place_value_and_expectation(
    http: httpx.Client, desk: Desk, wish: object, where: str, value: object, expected: str
) -> None:
    body = problem(http.put("/api/v1/terminals/client/mode", json=wish), 422)
    assert body["errors"] == [{"where": where, "value": value, "expected": expected}]
    assert desk.snapshot is START


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"{",
        b'{"mode": "off"',
        b"\xff\xfe\xfd",
        b'{"mode": "\\ud800"}',
        b'{"mode": NaN}',
        b'{"mode": 1e999}',
        b'{"mode": ' + b"9" * 5000 + b"}",
        b"[" * 16000,
        b'"off"',
        b"null",
    ],
)
def test_garbage_in_the_body_is_malformed_and_nothing_is_done(http: httpx.Client, desk: Desk, garbage: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    body = problem(http.put("/api/v1/terminals/client/mode", content=garbage, headers=headers), 422)
    assert body["errors"][0]["where"].startswith("body")
    assert desk.snapshot is START


def test_an_uplink_is_a_name_and_no_number(http: httpx.Client) -> None:
    body = problem(http.put("/api/v1/terminals/client/active", json={"uplink": 2}), 422)
    assert body["errors"] == [{"where": "body.uplink", "value": 2, "expected": "a valid string"}]


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/api/v1/status", "/api/v1/program"])
def test_a_core_that_does_not_answer_is_told_as_unavailable(http: httpx.Client, desk: Desk, path: str) -> None:
    desk.silent = True
    assert "did not answer" in problem(http.get(path), 503)["detail"]
    assert "did not answer" in problem(http.put("/api/v1/mode", json={"mode": "off"}), 503)["detail"]
