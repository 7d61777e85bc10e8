# SPDX-License-Identifier: Apache-2.0
"""One access point with a rule: its terminals, its capacity and the decided caps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

from controller.model.config import AccessPoint, CapRule, Site, Terminal
from controller.policy.bandwidth.rates import FusedRate
from controller.policy.caps import sharers
from controller.policy.caps.capacity import AirRate, Use, use
from controller.policy.caps.flows import Pair, TcpFlow, TerminalDelivery, delivery_after
from controller.policy.caps.release import Release
from controller.policy.caps.sharers import SILENT_PERIODS, Sharer, silent
from controller.policy.caps.terminal_cap import Released, Ruling, decide, explained_us
from controller.policy.caps.windows import Window

LATE_S = 1.0  # tolerance for a delayed report


class CapacityMeter:
    """Measure a capacity that gateway.yaml does not give."""

    def __init__(self) -> None:
        self.rate = AirRate()
        # The gateway's count takes precedence: a terminal's own report cannot change the caps of others.
        self._by_gateway: dict[str, TerminalDelivery] = {}
        self._by_agent: dict[str, TerminalDelivery] = {}

    def count_by_gateway(self, terminal: str, flows: Iterable[TcpFlow], seconds: float, now: float) -> None:
        """Add the gateway's count. `seconds`: the time since its last report."""
        _count(self._by_gateway, terminal, flows, seconds, now)

    def count_by_agent(self, terminal: str, flows: Iterable[TcpFlow], seconds: float, now: float) -> None:
        _count(self._by_agent, terminal, flows, seconds, now)

    def uses(self, sharers: Iterable[Sharer], ruling: Ruling, now: float) -> list[Use]:
        """Return the terminals' current use of the airtime. `ruling` is in force."""
        uses = (self._use(sharer, ruling, now) for sharer in sharers if not silent(sharer, now))
        return [each for each in uses if each is not None]

    def look(
        self,
        uses: Collection[Use],
        active: int,
        now: float,
        probed: Callable[[], FusedRate | None],
        may_try: bool,
    ) -> int | None:
        """Return the bandwidth to divide.

        `probed` gives a rate before any delivery. `may_try` permits a trial of another bandwidth.
        """
        self.rate = self.rate.after(uses, active, now, may_try)
        if self.rate.asks_trains:
            self.rate = self.rate.by_trains(probed(), now)
        return None if self.rate.bps is None else round(self.rate.bps)

    def _use(self, sharer: Sharer, ruling: Ruling, now: float) -> Use | None:
        for counted in (self._by_gateway, self._by_agent):
            one = counted.get(sharer.terminal)
            if one is not None and now - one.heard_at <= SILENT_PERIODS * sharer.period_s and one.bps is not None:
                return use(sharer, one.bps, ruling.caps.get(sharer.terminal))
        return None


def _count(
    known: dict[str, TerminalDelivery], terminal: str, flows: Iterable[TcpFlow], seconds: float, now: float
) -> None:
    before = known.get(terminal)
    if before is not None and now - before.heard_at > seconds + LATE_S:
        before = None  # the duration of this delivery is not known
    known[terminal] = delivery_after(before, flows, seconds, now)


TICK_S = 0.25  # between decisions, without new reports or with more than FEW sharers
SHORT_S = 1.0  # agents count held sockets each 200 ms and report the count next
FEW = 32  # sharers; up to this number each report causes a decision

# From site, access point and time to the rate by packet trains; None: no recent measurement
Probed = Callable[[str, str, float], FusedRate | None]


class AccessPointState:
    def __init__(self, site: Site, access_point: AccessPoint) -> None:
        self.site, self.access_point = site, access_point
        self.terminals = {each.name: each for each in site.terminals if each.access_point == access_point.name}
        self.ruling = Ruling(access_point)
        self.release = Release()
        self.meter = (
            CapacityMeter() if access_point.rule is CapRule.IDEAL else None
        )  # other rules do not use a capacity
        self.ports = tuple(sorted({at.port for each in self.terminals.values() for at in each.own}))
        self._sharers: dict[str, Sharer] = {}  # by terminal
        self.unseen: Mapping[str, int] = {}  # by terminal: sending connections whose handshake the gateway missed
        self.unheld: Collection[str] = ()  # terminals whose caps no agent holds
        self.short: set[str] = set()  # terminals with more sending connections than held sockets
        self._short_since: dict[str, float] = {}
        self._decided_at = 0.0
        self._stale = True  # a report came since the last decision

    def resume(self, other: AccessPointState) -> None:
        """Keep the state of terminals. A changed rule starts from the beginning."""
        here = self.terminals.keys() & other._sharers.keys()
        self._sharers = {name: other._sharers[name] for name in here}
        if self.access_point == other.access_point:
            self.ruling, self.meter, self.release = other.ruling, other.meter, other.release

    def on_report(
        self,
        terminal: Terminal,
        flows: Iterable[TcpFlow],
        reporter: str | None,
        period_s: float,
        now: float,
        cut: bool = False,
        uplinks_key: str = "",
    ) -> None:
        """Record a report about a terminal. `reporter`: its own agent; None: the gateway's agent.

        A new reporter counts from another start and may see another host, so earlier round trips are forgotten.
        `cut`: the report had more flows. `uplinks_key`: the uplinks that carry the terminal's packets.
        """
        before, name = self._sharers.get(terminal.name), reporter or ""
        if before is not None and before.reporter != name:
            before = replace(before, heard_at=float("-inf"), bytes_sent={}, quiet_bytes={}, least={})
        addresses = {str(at.address) for at in terminal.own}
        sharer = sharers.after_report(before, terminal.name, addresses, tuple(flows), now, period_s, cut, uplinks_key)
        self._sharers[terminal.name] = replace(sharer, reporter=name)
        self._stale = True

    def decide(self, now: float, probed: Probed) -> None:
        at_once = self._stale and len(self._sharers) <= FEW
        if not at_once and now - self._decided_at < TICK_S:
            return
        access_point = self.access_point
        if self.meter is not None:
            uses = self.meter.uses(self._sharers.values(), self.ruling, now)
            if access_point.bandwidth_bps is None:
                by_trains = partial(probed, self.site.name, access_point.name, now)
                may_try = not self.release.is_on
                measured_bps = self.meter.look(uses, self.ruling.active, now, by_trains, may_try)
                access_point = replace(access_point, bandwidth_bps=measured_bps)
            self.release = self._released(uses, access_point.bandwidth_bps, now)
        release = self._release_in_force()
        self.ruling = decide(access_point, self._sharers.values(), self.ruling, now, release)
        self._decided_at, self._stale = now, False

    def _released(self, uses: Collection[Use], bandwidth_bps: int | None, now: float) -> Release:
        if bandwidth_bps is None:
            return Release()
        held = [use for use in uses if use.terminal not in self.unheld and not self.unseen.get(use.terminal)]
        explained = explained_us(self.ruling)
        return self.release.after(held, bandwidth_bps, self.ruling.active, explained, now)

    def _release_in_force(self) -> Released | None:
        one = self.release
        return Released(one.least_bps, one.queue_us) if one.is_on else None

    def held_sockets(self, terminal: str, sockets: int | None, now: float) -> None:
        """Record the sockets that the terminal's own agent holds; None: it holds none.

        The agent counts a new connection late, so a shortage counts after SHORT_S.
        """
        cap = self.ruling.caps.get(terminal)
        if sockets is None or cap is None or not cap.windows or sockets >= cap.connections:
            self._short_since.pop(terminal, None)
            self.short.discard(terminal)
        elif now - self._short_since.setdefault(terminal, now) >= SHORT_S:
            self.short.add(terminal)

    def windows(self, terminal: str) -> Mapping[Pair, Window]:
        cap = self.ruling.caps.get(terminal)
        return cap.windows if cap else {}
