# SPDX-License-Identifier: Apache-2.0
"""The agents that enforce caps: the choice of the agent for each terminal, its order, and its answers.

    opened ──► asked to report often ──► reporting ◄──► silent (three periods without a report)
                                             │
                                             └──► ordered ──answered──► ordered again: a change, or a renewal
                                                     └──► refused: another agent is chosen; retried after AGAIN_AFTER_S

An agent has at most one open order. Later changes go into the next order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from controller.features.caps.access_point import AccessPointState
from controller.model.config import Site
from controller.policy.caps.flows import Pair
from controller.policy.caps.windows import Window
from controller.protocol.orders import Cap, Caps, Direct, Directive, ReportEvery, Tickets
from controller.protocol.reports import CAPS, CLAMPS, NARROWS, REPORTS, AgentOpened, Capping, Reported, Resulted

LEASE_MS = 3000
RENEWED_AFTER_S = LEASE_MS / 1000 / 3
OFTEN, SELDOM = ReportEvery(250), ReportEvery(1000)  # every session begins with SELDOM
MOST_PERIODS = 3  # without a report, until an agent counts as silent
AGAIN_AFTER_S = 5.0  # before a refused order is repeated
ANSWERS_WITHIN_S = 60.0
NOTHING = Caps(LEASE_MS)
WHOLE_S = 0.9  # shortest time of a merged report; reports may come a little early

Order = TypeVar("Order", bound=Directive)


class OrderStatus(Generic[Order]):
    """The last order of one kind to an agent, and its answer."""

    def __init__(self, last: Order) -> None:
        self.last = last
        self.refused: str | None = None  # the reason
        self.at: float | None = None  # when it was sent; None: no order in this session
        self.done = False  # the agent confirmed this order or an earlier one of its kind
        self._directive: int | None = None  # the open order

    def may_go(self, now: float) -> bool:
        """Return whether the next order may be sent: one at a time, and a pause after a refusal."""
        if self.at is None:
            return True
        waits_s = ANSWERS_WITHIN_S if self._directive is not None else AGAIN_AFTER_S if self.refused else 0.0
        return now - self.at >= waits_s

    def owes(self, now: float) -> bool:
        """Return whether the answer is overdue."""
        return self._directive is not None and self.at is not None and now - self.at > LEASE_MS / 1000

    def goes(self, order: Order, directive: int, now: float) -> None:
        self.last, self.at, self._directive = order, now, directive

    def answered(self, event: Resulted) -> bool:
        """Record the answer to the open order. Return False if it answers another order."""
        if event.directive != self._directive:
            return False
        self._directive, self.refused, self.done = None, None if event.done else event.answer, event.done
        return True


class CapHolder:
    def __init__(self, event: AgentOpened) -> None:
        self.name, self.session, self.role = event.name, event.session, event.role
        self.capping: Capping | None = None  # in the last report; None: it had none
        self._able = {each.name: None if each.available else each.reason for each in event.capabilities}
        self._reporting = OrderStatus(SELDOM)
        self._capping = OrderStatus(NOTHING)
        self.period_s = SELDOM.interval_ms / 1000
        self._reported_at: float | None = None  # last report, or a later change of its interval; None: no report
        self._begins = True  # the last report follows a silence; a rate needs two reports
        self._gathered_ms, self._whole_at = 0, 0.0  # merged so far; end of the last merged report

    def can(self, capability: str) -> bool:
        return self._able.get(capability, "") is None

    def knows(self, *capabilities: str) -> bool:
        """Return whether the agent reports one of these capabilities, available or not."""
        return any(each in self._able for each in capabilities)

    @property
    def sees(self) -> bool:
        """True if a report without connections means that there are none."""
        return self._able.get(REPORTS) is None

    def why_not(self, *capabilities: str) -> str:
        """Return why the agent has none of these capabilities."""
        reasons = [reason for each in capabilities if (reason := self._able.get(each))]
        return "; ".join(reasons) or f"it does not report this capability ({' or '.join(capabilities)})"

    @property
    def refused(self) -> str | None:
        """The reason why the agent refused its last order, or None."""
        return self._capping.refused

    @property
    def reports_often(self) -> bool:
        return self._reporting.last == OFTEN

    # Reports

    def reported(self, event: Reported, now: float) -> None:
        self._begins = not self.reports_recently(now)
        self.capping, self._reported_at = event.capping, now

    def whole(self, event: Reported, now: float) -> Reported | None:
        """Return the reports of the last second as one, or None if the second is not over."""
        if not self.reports_often and not self._gathered_ms:
            self._whole_at = now
            return event
        self._gathered_ms += event.interval_ms
        if self._reported_at is not None and now - self._whole_at < WHOLE_S:
            return None
        gathered, self._gathered_ms, self._whole_at = self._gathered_ms, 0, now
        return replace(event, interval_ms=gathered)

    def resulted(self, event: Resulted, now: float) -> bool:
        if self._reporting.answered(event):
            if event.done:
                self.period_s = self._reporting.last.interval_ms / 1000
                self._reported_at = now if self._reported_at is not None else None
            return True
        return self._capping.answered(event)

    @property
    def rests(self) -> bool:
        """True if the agent holds no caps, reports at the normal interval and has refused nothing."""
        normal = self._reporting.last == SELDOM and self._capping.last == NOTHING
        return normal and self.capping is None and not self._reporting.refused and not self._capping.refused

    def reports_recently(self, now: float) -> bool:
        return self._reported_at is not None and now - self._reported_at <= MOST_PERIODS * self.period_s

    def owes(self, now: float) -> bool:
        """Return whether the answer about caps is overdue."""
        return self._capping.owes(now)

    def holds(self, pairs: Set[Pair]) -> bool:
        return self._capping.done and pairs <= {
            (cap.terminal_address, cap.other_address) for cap in self._capping.last.caps
        }

    # Orders

    def tell(self, often: bool, order: Caps | None, tickets: Tickets, now: float) -> Iterator[Direct]:
        """Yield due orders. `order`: None removes the caps that the agent holds."""
        reporting = OFTEN if often else SELDOM
        again = self._reporting.refused is not None
        if (again or reporting != self._reporting.last) and self._reporting.may_go(now):
            yield self._direct(self._reporting, reporting, tickets, now)
        waits = not self.reports_recently(now) or (self._begins and order is not None)  # until then, existing caps stay
        if not waits and self._is_due(order, now) and self._capping.may_go(now):
            yield self._direct(self._capping, order or NOTHING, tickets, now)

    def _is_due(self, order: Caps | None, now: float) -> bool:
        status = self._capping
        if order is None:
            undone = status.last == NOTHING and not status.refused
            again = self.capping is not None and (status.at is None or now - status.at >= AGAIN_AFTER_S)
            return not undone or again
        return status.at is None or order != status.last or now - status.at >= RENEWED_AFTER_S

    def _direct(self, status: OrderStatus[Order], order: Order, tickets: Tickets, now: float) -> Direct:
        directive = tickets.draw()
        status.goes(order, directive, now)
        return Direct(self.session, directive, order)


# The terminal's agent can act on sockets, its gateway's agent only on windows


@dataclass(frozen=True, slots=True)
class CapExecutor:
    session: int
    agent: str
    capability: str
    instead: str | None = None  # why the terminal's own agent does not hold the caps


def cap_executor(site: Site, own: CapHolder | None, gateway: CapHolder | None, now: float) -> CapExecutor | str:
    """Return the agent for the terminal's caps, or why none can hold them. `own` speaks for the terminal."""
    instead = None
    for holder, capabilities in ((own, (CAPS, CLAMPS)), (gateway, (NARROWS,))):
        able = next((each for each in capabilities if holder is not None and holder.can(each)), None)
        if holder is None:
            continue
        if able is not None and not holder.refused and holder.reports_recently(now) and not holder.owes(now):
            return CapExecutor(holder.session, holder.name, able, instead)
        instead = _cannot(f"its agent {holder.name}", holder, now, *capabilities)
    whose = "no agent speaks for it" if own is None else _cannot(f"its agent {own.name}", own, now, CAPS, CLAMPS)
    if gateway is None:
        return f"{whose}, and no gateway agent enrolled as {site.name} is connected"
    there = _cannot(f"the gateway's agent {gateway.name}", gateway, now, NARROWS)
    return f"{whose}, and {there}"


def _cannot(name: str, holder: CapHolder, now: float, *capabilities: str) -> str:
    if not any(map(holder.can, capabilities)):
        return f"{name} cannot: {holder.why_not(*capabilities)}"
    if holder.refused:
        return f"{name} could not: {holder.refused}"
    if holder.reports_recently(now):
        return f"{name} has not confirmed the order for {LEASE_MS // 1000} s"
    return f"{name} has not reported for three periods"


# The order to one agent, for the terminals of all its access points

MOST_CAPS, MOST_PORTS = 4096, 256  # per order


class CapsDraft:
    def __init__(self) -> None:
        self._windows: dict[str, Mapping[Pair, Window]] = {}  # by terminal
        self._ports: set[str] = set()
        self._sharers = 0
        self._block_bytes = 0

    def watch(self, ports: Iterable[str]) -> None:
        self._ports.update(ports)

    def share(self, state: AccessPointState) -> None:
        if state.ruling.active >= self._sharers:  # of several access points, the one with the most active terminals
            self._sharers, self._block_bytes = state.ruling.active, state.ruling.block_bytes

    def hold(self, terminal: str, windows: Mapping[Pair, Window]) -> None:
        self._windows[terminal] = windows

    def order(self) -> Caps:
        ports = sorted(self._ports)[:MOST_PORTS]
        return Caps(LEASE_MS, tuple(self._caps()), self._sharers, self._block_bytes, tuple(ports))

    def _caps(self) -> Iterable[Cap]:
        """Give each terminal an equal part of MOST_CAPS if there are too many."""
        sizes = [len(windows) for windows in self._windows.values() if windows]
        most = MOST_CAPS if sum(sizes) <= MOST_CAPS else MOST_CAPS // len(sizes)
        for terminal in sorted(self._windows):
            for (own, other), window in sorted(self._windows[terminal].items())[:most]:
                yield Cap(own, other, window.most, window.least, window.pace_bps)
