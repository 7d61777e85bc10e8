# SPDX-License-Identifier: Apache-2.0
"""The failovers that one agent has armed."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from controller.policy.paths.failover import ArmedFailover

# A failover counts once. If its message crossed an order, it belongs to the failover armed before that order.

CROSSED_S = 5.0  # an agent moves the connections before it reports the failover


@dataclass(frozen=True, slots=True)
class Armed:
    failover: ArmedFailover
    at: float
    refused: str | None = None
    renew: bool = False  # the agent may have restarted and lost it

    def stands(self, failover: ArmedFailover, now: float) -> bool:
        return not self.renew and not failover.outdates(self.failover) and now - self.at < failover.renewed_after_s


class Arms:
    """The armed failovers of one agent."""

    def __init__(self) -> None:
        self._armed: dict[str, Armed] = {}
        self._before: dict[str, Armed] = {}  # what the last order replaced, with the time of that order
        self._known: set[str] = set()  # armed or fired in this session

    def __iter__(self) -> Iterator[str]:
        return iter(self._armed)

    def get(self, terminal: str) -> Armed | None:
        return self._armed.get(terminal)

    def opened(self) -> None:
        """Mark every failover for renewal: an agent loses them in a restart."""
        self._known.clear()
        self._armed = {name: replace(armed, renew=True) for name, armed in self._armed.items()}

    def keep(self, terminals: Container[str]) -> None:
        self._armed = {name: armed for name, armed in self._armed.items() if name in terminals}
        self._before = {name: armed for name, armed in self._before.items() if name in terminals}

    def arm(self, failover: ArmedFailover, now: float) -> None:
        self.disarm(failover.terminal, now)
        self._armed[failover.terminal] = Armed(failover, now)
        self._known.add(failover.terminal)

    def disarm(self, terminal: str, now: float) -> bool:
        armed = self._armed.pop(terminal, None)
        if armed is not None:
            self._before[terminal] = replace(armed, at=now)
        return armed is not None

    def refused(self, terminal: str, why: str) -> None:
        if terminal in self._armed:
            self._armed[terminal] = replace(self._armed[terminal], refused=why)

    def fired(self, terminal: str, arming: bool, now: float) -> ArmedFailover | None:
        """Return the failover that fired, or None. `arming`: the last order to arm has no answer yet.

        A failover disarmed less than CROSSED_S ago counts: the agent has moved, and the gateway must follow.
        """
        before = self._before.pop(terminal, None)
        crossed = before is not None and now - before.at <= CROSSED_S
        if terminal in self._armed and not (arming and crossed):
            self._known.add(terminal)
            return self._armed.pop(terminal).failover
        return before.failover if before and crossed else None

    def fired_unknown(self, terminal: str) -> bool:
        """Return True once per session, before the first order to arm: an earlier run may have armed it."""
        first = terminal not in self._known
        self._known.add(terminal)
        return first
