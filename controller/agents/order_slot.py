# SPDX-License-Identifier: Apache-2.0
"""An order that an agent keeps for its session. It is sent again when it changes or when the agent loses it.

opened ──► ordered ──► reports confirm it ──► reports no longer confirm it ──► ordered again
                │
                └──► refused: ordered again after AGAIN_AFTER_S, as the reason may be gone
"""

from __future__ import annotations

from typing import Generic, TypeVar

from controller.protocol.reports import AgentOpened, Resulted

AGAIN_AFTER_S = 5.0

Order = TypeVar("Order")


class OrderSlot(Generic[Order]):
    def __init__(self, event: AgentOpened, capability: str) -> None:
        lacking = (one.reason for one in event.capabilities if one.name == capability and not one.available)
        self.unable: str | None = next(lacking, None)
        self.refused: str | None = None
        self._ordered: Order | None = None
        self._ordered_at = 0.0
        self._directive: int | None = None  # unanswered

    def is_due(self, order: Order, idle: bool, holds: bool, now: float) -> bool:
        """Return whether to send the order. `idle`: it is empty, and a session without an order needs none."""
        if order != self._ordered:
            return not ((self._ordered is None and idle) or self.unable)
        return not holds and self._directive is None and now - self._ordered_at >= AGAIN_AFTER_S

    def ordered(self, order: Order, directive: int, now: float) -> None:
        self._ordered, self._directive, self._ordered_at = order, directive, now

    def resulted(self, event: Resulted) -> None:
        if event.directive == self._directive:
            self._directive, self.refused = None, None if event.done else event.answer
