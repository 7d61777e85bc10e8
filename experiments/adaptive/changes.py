"""When copies began and ended in mode auto, and why: as the controller tells it."""

from __future__ import annotations

import time

from controller.web.client import Client
from experiments.adaptive.seen import Change


def acting(client: Client, terminal: str) -> str:
    """What its mode comes to just now."""
    terminals = client.get("status")["terminals"]
    return next(str(one["acting"]) for one in terminals if one["name"] == terminal)


def read(client: Client, terminal: str) -> list[Change]:
    """The oldest first."""
    lag = time.time() - time.monotonic()
    decisions = client.get("terminals", terminal, "decisions")["decisions"]
    found = [Change(one["at"] - lag, one["copies"], one["because"]) for one in decisions if one["copies"] is not None]
    return sorted(found, key=lambda change: change.at)
