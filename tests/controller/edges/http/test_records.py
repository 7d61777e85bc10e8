# SPDX-License-Identifier: Apache-2.0
"""The audit list names who changed what; the events are filtered and exported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from controller.edges.http.app import make_app
from controller.edges.http.records import Records
from controller.edges.http.server import serve
from tests.controller.edges.http.conftest import problem
from tests.controller.edges.http.fake_core import BEARER, SETTINGS, TOKEN, FakeCore
from tests.system.evidence import PATIENCE_S

READER = "f" * 32


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records.beside(str(tmp_path / "state.json"))


@pytest.fixture
def own(records: Records) -> Iterator[httpx.Client]:
    """A client of a server whose records are kept in files."""
    core = FakeCore()
    running = serve(
        make_app(core.read, core.program, core.decisions, core, TOKEN, records=records, reader_token=READER), SETTINGS
    )
    with httpx.Client(
        base_url=f"http://{running.endpoint}", headers=BEARER, trust_env=False, timeout=PATIENCE_S
    ) as client:
        yield client
    running.stop()


def test_each_change_is_in_the_audit_list_before_its_answer(
    own: httpx.Client, records: Records, tmp_path: Path
) -> None:
    own.get("/api/v1/status")
    own.put("/api/v1/terminals/client/mode", json={"mode": "single"})
    own.put("/api/v1/terminals/client/active", json={"uplink": "dsl"})
    own.request("DELETE", "/api/v1/gateways/home/uplinks/lte/used")
    code = own.post("/api/v1/page/links", json={}).json()["code"]
    invited, reset, refused, changed = own.get("/api/v1/audit").json()
    assert changed["who"] == "root"
    assert changed["request"] == 'PUT /api/v1/terminals/client/mode {"mode":"single"}'
    assert changed["said"] == ["client is now in mode single"]
    assert (refused["status"], refused["said"]) == (409, ["home has no uplink 'dsl'; it has wifi, lte"])
    assert reset["said"] == ["lte of home has used nothing of its budget"]
    assert code not in str(invited)
    again = Records.beside(str(tmp_path / "state.json"))
    assert again.audit.entries() == records.audit.entries()


def test_reader_token_reads_and_changes_nothing(own: httpx.Client, records: Records) -> None:
    own.headers["Authorization"] = f"Bearer {READER}"
    for path in ("/metrics", "/api/v1/status", "/api/v1/audit"):
        assert own.get(path).status_code == 200
    problem(own.put("/api/v1/mode", json={"mode": "off"}), 403)
    problem(own.post("/api/v1/page/links", json={"access": "operate"}), 403)
    assert records.audit.entries() == []


def test_refused_caller_is_not_in_the_audit_list(own: httpx.Client, records: Records) -> None:
    own.put("/api/v1/mode", json={"mode": "off"}, headers={"Authorization": "Bearer no"})
    assert records.audit.entries() == []


def test_events_are_filtered_and_exported(own: httpx.Client, records: Records) -> None:
    about = {"gateway": "home", "uplinks": ("wifi",), "terminals": ("phone",)}
    records.events.add(1.0, {"sentence": "wifi is dead for phone", **about})
    records.events.add(2.5, {"sentence": '=cmd("x"), a "formula"', **about, "terminals": ("tablet",)})
    assert [each["number"] for each in own.get("/api/v1/events").json()] == [2, 1]
    assert [each["at"] for each in own.get("/api/v1/events?terminal=phone&uplink=wifi").json()] == [1.0]
    assert own.get("/api/v1/events?uplink=lte").json() == []
    answer = own.get("/api/v1/events.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.text.splitlines() == [
        "time,gateway,uplinks,terminals,event",
        '1970-01-01T00:00:02Z,home,wifi,tablet,"\'=cmd(""x""), a ""formula"""',
        "1970-01-01T00:00:01Z,home,wifi,phone,wifi is dead for phone",
    ]
