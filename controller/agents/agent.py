# SPDX-License-Identifier: Apache-2.0
"""One agent: what it said when it connected, its last report, its orders, and the terminals that it speaks for.

opened ──► reporting ◄──► silent (three seconds without a message: its reports no longer count)
              └──► closed
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, cast

from controller.agents.order_kinds import REPORT_INTERVAL, Order, OrderKind
from controller.agents.order_slot import OrderSlot
from controller.policy.paths.flows import ConnectionDelta, FlowTable, merged
from controller.policy.paths.uplinks import AddressOwner
from controller.protocol.orders import Direct, Directive, Tickets
from controller.protocol.reports import (
    CAPS,
    CLAMPS,
    ELIMINATES,
    INTERCEPTS,
    MEASURES_DISTANCES,
    MOVES,
    NARROWS,
    RELAYS,
    TUNNELS,
    AgentOpened,
    Capability,
    Reported,
    Resulted,
    Role,
)

log = logging.getLogger(__name__)

GONE_AFTER_S = 3.0  # without a message
MOST_PERIODS = 3  # without a report, until its caps and rates no longer count
WHOLE_S = 0.9  # shortest time of a merged report; reports may come a little early
NOT_OF_ROLE = {
    Role.TERMINAL: {CAPS, CLAMPS, NARROWS, ELIMINATES, TUNNELS, INTERCEPTS, RELAYS, MEASURES_DISTANCES},
    Role.GATEWAY: {CAPS, CLAMPS, NARROWS, MOVES, RELAYS},
    Role.RELAY: {CAPS, CLAMPS, NARROWS, ELIMINATES, TUNNELS, INTERCEPTS},
}


class Agent:
    """It stays after it has disconnected, so that its state can be shown."""

    def __init__(self, event: AgentOpened, tickets: Tickets, now: float) -> None:
        self.name = event.name
        self._tickets = tickets
        self.reports = 0  # in all sessions
        self.reported_at: float | None = None
        self.listed = False  # in gateway.yaml, or added as a relay
        self.open(event, now)

    def open(self, event: AgentOpened, now: float) -> None:
        self.session, self.connected = event.session, True
        self.peer, self.role, self.path_manager = event.peer, event.role, event.path_manager
        self.terminal = event.terminal or event.name  # the one in its certificate
        self.version, self.capabilities, self.addresses = event.version, event.capabilities, event.addresses
        self._unable = {one.name: None if one.available else one.reason for one in event.capabilities}
        self._slots: dict[OrderKind[Any], OrderSlot[Any]] = {}
        self.since = self.heard_at = now  # start of the session, or its end
        self.gone_reason = ""
        self.silent = False
        self.homes: dict[str, AddressOwner] = {}  # by address: terminals on this host
        self.owns: tuple[str, ...] = ()  # names of the terminals in `homes`
        self.owns_nobody: str | None = None  # why it speaks for none, or not for all, of the terminals in `homes`
        self.unconfirmed: frozenset[str] = frozenset()  # terminals whose connections no other agent confirms
        self.report: Reported | None = None  # the last one of this session
        self.resumed = True  # the last report is the first one, or follows a silence: a rate needs two reports
        self.flows: tuple[ConnectionDelta, ...] = ()  # since the report before
        self.whole_flows: tuple[ConnectionDelta, ...] = ()  # in the last whole second
        self.whole_ms: int | None = None  # time that ends with the last report; None: its second is not over
        self._table, self._gathered = FlowTable(), tuple[ConnectionDelta, ...]()
        self._gathered_ms, self._whole_at = 0, 0.0  # since the last whole second

    def close(self, reason: str, now: float) -> None:
        self.connected, self.since, self.gone_reason = False, now, reason
        self.unconfirmed = frozenset()

    @property
    def alive(self) -> bool:
        return self.connected and not self.silent

    def heard(self, now: float) -> None:
        self.heard_at, self.silent = now, False

    def falls_silent(self, now: float) -> bool:
        if not self.alive or now - self.heard_at <= GONE_AFTER_S:
            return False
        self.silent, self.unconfirmed = True, frozenset()
        self._table.forget()
        return True

    # Capabilities

    def can(self, capability: str) -> bool:
        return self.knows(capability) and self.cannot(capability) is None

    def cannot(self, capability: str) -> str | None:
        """Return why the agent lacks a capability. None: it has it, or does not report it."""
        return self._unable.get(capability)

    def knows(self, capability: str) -> bool:
        """Return whether the agent reports this capability, available or not."""
        return capability in self._unable

    @property
    def missing(self) -> tuple[Capability, ...]:
        """Missing capabilities that the role needs, except those for caps (features/caps/readout.py)."""
        expected = NOT_OF_ROLE[self.role]
        return tuple(each for each in self.capabilities if not each.available and each.name not in expected)

    # Reports

    @property
    def period_s(self) -> float:
        """The time between its reports."""
        every = self.slot(REPORT_INTERVAL).acknowledged or REPORT_INTERVAL.nothing
        return every.interval_ms / 1000

    @property
    def reports_often(self) -> bool:
        return self.slot(REPORT_INTERVAL).ordered not in (None, REPORT_INTERVAL.nothing)

    def reports_recently(self, now: float) -> bool:
        """Return whether the agent is not silent. A new interval counts from the moment when it was acknowledged."""
        most_s, new_at = MOST_PERIODS * self.period_s, self.slot(REPORT_INTERVAL).acknowledged_at
        return self.reported_within(most_s, now) or (self.report is not None and now - new_at <= most_s)

    def reported_within(self, seconds: float, now: float) -> bool:
        return self.report is not None and self.reported_at is not None and now - self.reported_at <= seconds

    def on_report(self, event: Reported, now: float) -> None:
        self.resumed = not self.reports_recently(now)
        self.whole_ms = self._whole_ms(event.interval_ms, now)
        self.flows = self._table.on_report(event.connections, event.interval_ms)
        self._gathered = merged(self._gathered, self.flows) if self._gathered else self.flows
        if self.whole_ms is not None:
            self.whole_flows, self._gathered = self._gathered, ()
        self.report, self.reported_at = event, now
        self.reports += 1

    def _whole_ms(self, interval_ms: int, now: float) -> int | None:
        """Merge frequent reports into one a second, for features that compare reports."""
        if not self.reports_often and not self._gathered_ms:
            self._whole_at = now
            return interval_ms
        self._gathered_ms += interval_ms
        if self.report is not None and now - self._whole_at < WHOLE_S:
            return None
        gathered_ms, self._gathered_ms, self._whole_at = self._gathered_ms, 0, now
        return gathered_ms

    # Orders

    def slot(self, kind: OrderKind[Order]) -> OrderSlot[Order]:
        found = self._slots.get(kind)
        if found is None:
            found = self._slots[kind] = OrderSlot(kind, kind.capability and self.cannot(kind.capability))
        return cast("OrderSlot[Order]", found)

    def order(self, kind: OrderKind[Order], order: Order, now: float) -> Iterator[Direct]:
        """Yield the order if it is due."""
        slot = self.slot(kind)
        if self.connected and slot.is_due(order, self.report, now):
            directive = self._tickets.draw()
            slot.sent(order, directive, now)
            yield Direct(self.session, directive, cast("Directive", order))

    def on_result(self, event: Resulted, now: float) -> None:
        for slot in self._slots.values():
            refused = slot.refused
            if slot.resulted(event, now):
                if slot.refused and slot.refused != refused:
                    log.warning("agent %s could not %s: %s", self.name, slot.kind.aim, slot.refused)
                return
