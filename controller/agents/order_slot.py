# SPDX-License-Identifier: Apache-2.0
"""One kind of order to one connected agent: what was ordered, what the agent acknowledged, and when the order is due.

due ──► open ──acknowledged──► kept ──► due: another order is wanted, or reports do not show this one, or its lease ends
          ├──refused──► due after AGAIN_AFTER_S: the reason may be gone
          └──no result in ANSWERED_WITHIN_S──► due

At most one order is open. Later changes go into the next one.
"""

from __future__ import annotations

from typing import Generic

from controller.agents.order_kinds import Order, OrderKind
from controller.protocol.reports import Reported, Resulted

AGAIN_AFTER_S = 5.0
ANSWERED_WITHIN_S = 30.0  # an executor carries out its orders one by one, and has 10 s for each


class OrderSlot(Generic[Order]):
    def __init__(self, kind: OrderKind[Order], unable: str | None) -> None:
        self.kind = kind
        self.unable = unable  # the reason
        self.refused: str | None = None  # the reason
        self.ordered: Order | None = None  # the last order
        self.acknowledged: Order | None = None  # the last order that the agent carried out
        self.acknowledged_at = float("-inf")
        self._directive: int | None = None  # of the open order
        self._sent_at = 0.0

    def is_due(self, order: Order, report: Reported | None, now: float) -> bool:
        """Return whether this order must be sent. `report`: the agent's last one."""
        since_s = now - self._sent_at
        if self.unable:
            return False
        if self.ordered is None:
            return order != self.kind.nothing or self.kind.outlives or not self._shows(order, report)
        if self._directive is not None:
            return since_s >= ANSWERED_WITHIN_S
        if self.refused or (order == self.ordered and not self._shows(order, report)):
            return since_s >= AGAIN_AFTER_S
        lease_s = self.kind.lease_s if order != self.kind.nothing else None
        return order != self.ordered or (lease_s is not None and since_s >= lease_s / 3)

    def sent(self, order: Order, directive: int, now: float) -> None:
        self.ordered, self._directive, self._sent_at = order, directive, now

    def waits_s(self, now: float) -> float:
        """Return for how long the open order has had no result; 0: none is open."""
        return now - self._sent_at if self._directive is not None else 0.0

    def resulted(self, event: Resulted, now: float) -> bool:
        """Record the result of the open order. Return whether it is that order's."""
        if event.directive != self._directive:
            return False
        self._directive, self.refused = None, None if event.done else event.answer or "it gave no reason"
        if event.done:
            self.acknowledged, self.acknowledged_at = self.ordered, now
        return True

    def _shows(self, order: Order, report: Reported | None) -> bool:
        return order == self.kind.nothing if report is None else self.kind.shows(order, report)
