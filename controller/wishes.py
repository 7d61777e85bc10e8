"""What people may ask the core to do, and the ways in which it can say no. No word of HTTP or OpenFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from controller.model import Mode


@dataclass(frozen=True, slots=True)
class Answer:
    """A wish that was kept. `done` are sentences; one that was kept before changes nothing and says "already"."""

    done: tuple[str, ...]
    changed: bool
    messages: int  # groups modified


class UnknownTerminal(Exception):
    """The sentence names the terminal and those that there are."""


class Impossible(Exception):
    """The sentence says why this terminal cannot have what was asked."""


class NotAnswered(Exception):
    """The core did not answer in time; whether the wish was kept is not known."""


class Writer(Protocol):
    """Blocks until the core has answered. A refused wish has changed nothing."""

    def set_mode(self, terminal: str, mode: Mode) -> Answer: ...

    def set_active(self, terminal: str, uplink: str) -> Answer: ...
