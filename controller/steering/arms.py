"""The reflexes that stand at one hand, as far as they were ordered of it; and whether one can have fired.

A word of a reflex that fired counts once, and only of one that was armed. It may have crossed an order: then it is of
the reflex before that order.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from controller.policy.reflexes import Reflex

CROSSED_S = 5.0  # a hand that fires takes its time to move the connections, and tells of it afterwards


@dataclass(frozen=True, slots=True)
class Armed:
    reflex: Reflex
    at: float
    refused: str | None = None
    renew: bool = False  # the hand may have been started anew, and know nothing of it

    def stands(self, reflex: Reflex, now: float) -> bool:
        """Whether this one will do where that one is wanted."""
        return not self.renew and not reflex.outdates(self.reflex) and now - self.at < reflex.renewed_after_s


class Arms:
    """By terminal, all of it."""

    def __init__(self) -> None:
        self._armed: dict[str, Armed] = {}
        self._before: dict[str, Armed] = {}  # what the last order replaced or ended, and when it was given
        self._known: set[str] = set()  # what was armed or fired in this session

    def __iter__(self) -> Iterator[str]:
        return iter(self._armed)

    def get(self, terminal: str) -> Armed | None:
        return self._armed.get(terminal)

    def opened(self) -> None:
        """What is armed in the hand has outlived the session before, if the hand itself has: it is armed again soon."""
        self._known.clear()
        self._armed = {name: replace(armed, renew=True) for name, armed in self._armed.items()}

    def keep(self, terminals: Container[str]) -> None:
        self._armed = {name: armed for name, armed in self._armed.items() if name in terminals}
        self._before = {name: armed for name, armed in self._before.items() if name in terminals}

    def arm(self, reflex: Reflex, now: float) -> None:
        self.disarm(reflex.terminal, now)
        self._armed[reflex.terminal] = Armed(reflex, now)
        self._known.add(reflex.terminal)

    def disarm(self, terminal: str, now: float) -> bool:
        """Whether there was something to disarm."""
        armed = self._armed.pop(terminal, None)
        if armed is not None:
            self._before[terminal] = replace(armed, at=now)
        return armed is not None

    def refused(self, terminal: str, why: str) -> None:
        if terminal in self._armed:
            self._armed[terminal] = replace(self._armed[terminal], refused=why)

    def fired(self, terminal: str, arming: bool, now: float) -> Reflex | None:
        """Which it was; `arming`: the last order to arm it is not answered. None: none that we know of.

        One that was disarmed a moment ago counts: the hand has moved, and the gateway would stay behind.
        """
        before = self._before.pop(terminal, None)
        crossed = before is not None and now - before.at <= CROSSED_S
        if terminal in self._armed and not (arming and crossed):
            self._known.add(terminal)
            return self._armed.pop(terminal).reflex
        return before.reflex if before and crossed else None

    def fired_unknown(self, terminal: str) -> bool:
        """Whether it may be one that was armed before we were started: once in a session, until we have armed one."""
        first = terminal not in self._known
        self._known.add(terminal)
        return first
