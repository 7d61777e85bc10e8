# SPDX-License-Identifier: Apache-2.0
"""Arbitration between two connections with one dpid: the second waits until the first proves alive or dead.

If the first answers a barrier, two bridges share a dpid, or one bridge has two targets here. The first stays: if each
newcomer replaced it, both would lose their controller repeatedly. Without an answer its TCP connection is dead, and the
newcomer is the same switch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from controller.protocol.orders import Tickets
from controller.protocol.switch_messages import Apply, Close, Effect, PortSeen, SwitchClosed, SwitchEvent, SwitchOpened

ANSWERS_WITHIN_S = 2.0
TOLD_FOR_S = 30.0  # Open vSwitch reconnects at least every 8 s


class DuplicateDpid:
    def __init__(self, tickets: Tickets) -> None:
        self.rival: str | None = None  # last rejected peer, while it may still reconnect
        self._sent_away_at = 0.0
        self._tickets = tickets
        self._waiting: SwitchOpened | None = None
        self._question: int | None = None  # ticket of the barrier
        self._asked_at = 0.0

    def challenge(self, newcomer: SwitchOpened, served: int, now: float) -> Iterator[Effect]:
        """Send a barrier to session `served`. Only the newest newcomer waits."""
        if self._waiting is not None:
            yield Close(self._waiting.session, f"the same switch reconnected, from {newcomer.peer}")
        self._waiting = newcomer
        if self._question is None:
            self._question, self._asked_at = self._tickets.draw(), now
            yield Apply(served, self._question, ())

    def answered(self, ticket: int, peer: str | None, now: float) -> Iterator[Effect]:
        if ticket != self._question:
            return
        gone = self.leave()
        if gone is not None:
            self.rival, self._sent_away_at = gone.peer, now
            yield Close(
                gone.session,
                f"has dpid {gone.dpid:016x}, and so has the switch at {peer}, which is in use; give each "
                "bridge its own dpid and one controller target",
            )

    def silent(self, now: float) -> bool:
        return self._waiting is not None and now - self._asked_at >= ANSWERS_WITHIN_S

    def enter(self) -> SwitchOpened | None:
        """Return the newcomer that is served next, or None. The old connection has ended."""
        self.rival = None
        return self.leave()

    def leave(self) -> SwitchOpened | None:
        """Return the waiting newcomer, or None, and stop waiting."""
        gone, self._waiting, self._question = self._waiting, None, None
        return gone

    def forget(self, now: float) -> None:
        if now - self._sent_away_at >= TOLD_FOR_S:
            self.rival = None

    def on_event(self, event: SwitchEvent) -> None:
        if self._waiting is None or self._waiting.session != event.session:
            return
        if isinstance(event, SwitchClosed):
            self._waiting = None
        elif isinstance(event, PortSeen):
            ports = {name: port for name, port in self._waiting.ports.items() if name != event.name}
            self._waiting = replace(self._waiting, ports=ports | ({event.name: event.port} if event.port else {}))
