# SPDX-License-Identifier: Apache-2.0
"""The API's records, which survive a restart: sessions, events, and each request that may change something."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.responses import Response
from starlette.types import Message

from controller.edges.http.sessions import Sessions
from controller.edges.state.journal import Entry, Journal
from controller.readout.events import Event

MOST_EVENTS = 2000
MOST_ACTIONS = 1000
CSV = "text/csv"
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would compute a text that starts so


@dataclass(frozen=True, slots=True)
class Records:
    sessions: Sessions
    events: Journal
    audit: Journal

    @classmethod
    def beside(cls, state_file: str | None) -> Records:
        """Return the records in files beside the state file. Without one they end with this process."""
        paths = [Path(f"{state_file}.{each}") if state_file else None for each in ("sessions", "events", "audit")]
        return cls(Sessions(paths[0]), Journal(paths[1], MOST_EVENTS), Journal(paths[2], MOST_ACTIONS))


@dataclass(frozen=True, slots=True)
class RecordedEvent(Event):
    """An event. `at` is in Unix seconds."""

    number: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Action:
    """A request that may have changed something: who sent it, and the controller's words about it."""

    number: int
    at: float
    who: str
    request: str
    status: int
    said: list[str]


def action(who: str, method: str, path: str, body: bytes, answer: list[Message]) -> Entry:
    """Return the entry of a request. No request body holds a secret; an answer may, so only its sentences are kept."""
    status = next((each["status"] for each in answer if each["type"] == "http.response.start"), 500)
    content = b"".join(each.get("body", b"") for each in answer if each["type"] == "http.response.body")
    try:
        said = _sentences(json.loads(content))
    except (ValueError, AttributeError, TypeError, RecursionError):
        said = []
    text = body.decode(errors="replace")
    return {"who": who, "request": f"{method} {path} {text}".strip(), "status": status, "said": said}


def _sentences(answer: dict[str, Any]) -> list[str]:
    failed = [f"failed: {each}" for each in answer.get("failed", ())]
    return [*answer.get("done", ()), *failed, *([answer["detail"]] if "detail" in answer else [])]


def add_records(app: FastAPI, records: Records) -> None:
    @app.get(
        "/api/v1/events",
        summary="What happened, newest first: of one terminal, over one uplink, or all",
    )
    def events(terminal: str | None = None, uplink: str | None = None) -> list[RecordedEvent]:
        found = _about(records.events.entries(), terminal, uplink)
        names = ("uplinks", "terminals")
        return [RecordedEvent(**{**each, **{key: tuple(each[key]) for key in names}}) for each in found]

    @app.get(
        "/api/v1/events.csv",
        summary="The same as CSV",
        response_class=Response,
        responses={200: {"content": {CSV: {"schema": {"type": "string"}}}}},
    )
    def events_csv(terminal: str | None = None, uplink: str | None = None) -> Response:
        text = io.StringIO()
        rows = csv.writer(text)
        rows.writerow(("time", "gateway", "uplinks", "terminals", "event"))
        for each in _about(records.events.entries(), terminal, uplink):
            cells = (each["gateway"], " ".join(each["uplinks"]), " ".join(each["terminals"]), each["sentence"])
            moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(each["at"]))
            rows.writerow((moment, *(f"'{cell}" if cell.startswith(FORMULA) else cell for cell in cells)))
        return Response(text.getvalue(), media_type=CSV)

    @app.get("/api/v1/audit", summary="Requests that may have changed something, newest first: who, when, the result")
    def audit() -> list[Action]:
        return [Action(**each) for each in records.audit.entries()]


def _about(entries: list[Entry], terminal: str | None, uplink: str | None) -> list[Entry]:
    return [
        each
        for each in entries
        if (terminal is None or terminal in each["terminals"]) and (uplink is None or uplink in each["uplinks"])
    ]
