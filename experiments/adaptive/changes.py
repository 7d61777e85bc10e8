"""When copies began and ended in mode auto, and why: as the controller tells it."""

from __future__ import annotations

import time
from typing import Any

from controller.edges.http.client import Client
from experiments.adaptive.seen import Change


def copying(client: Client, terminal: str) -> dict[str, Any]:
    """What its mode comes to just now, and why."""
    found: dict[str, Any] = client.get("terminals", terminal, "decisions")["copying"]
    return found


def read(client: Client, terminal: str) -> list[Change]:
    """The oldest first."""
    lag = time.time() - time.monotonic()
    decisions = client.get("terminals", terminal, "decisions")["decisions"]
    found = [Change(one["at"] - lag, one["copies"], one["because"]) for one in decisions if one["copies"] is not None]
    return sorted(found, key=lambda change: change.at)
