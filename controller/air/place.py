"""One access point whose rule is not off: what is known of those who share it, and what is decided for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

from controller.air.meter import Meter
from controller.model import AccessPoint, CapRule, Site, Terminal
from controller.policy import sharers
from controller.policy.cap_release import Release
from controller.policy.cap_windows import Window
from controller.policy.caps import Released, Ruling, decide, explained_us
from controller.policy.flows import Flow, Pair
from controller.policy.fusing import Figure
from controller.policy.sharers import Sharer

TICK_S = 0.25  # between decisions, where nothing is reported, or many report
SHORT_S = 1.0  # agents count what they hold each 200 ms, and tell it with their next report
FEW = 32  # sharers, for whom all is decided as soon as one of them reports

Probed = Callable[[str, str, float], Figure | None]
"""What trains tell of an access point, by its site's name and its own; None: nothing of late."""


class Place:
    def __init__(self, site: Site, access_point: AccessPoint) -> None:
        self.site, self.access_point = site, access_point
        self.terminals = {each.name: each for each in site.terminals if each.access_point == access_point.name}
        self.ruling = Ruling(access_point)
        self.release = Release()
        self.meter = Meter() if access_point.rule is CapRule.IDEAL else None  # the others divide nothing
        self.ports = tuple(sorted({at.port for each in self.terminals.values() for at in each.own}))
        self._sharers: dict[str, Sharer] = {}  # by terminal
        self.unseen: Mapping[str, int] = {}  # by terminal: connections that send, and began before its gateway looked
        self.unheld: Collection[str] = ()  # terminals
        self.short: set[str] = set()  # terminals with more connections that send than sockets that their agents hold
        self._short_since: dict[str, float] = {}
        self._decided_at = 0.0
        self._stale = True  # something was reported since

    def resume(self, other: Place) -> None:
        """What was known of those who are still here; a rule that has changed decides anew."""
        here = self.terminals.keys() & other._sharers.keys()
        self._sharers = {name: other._sharers[name] for name in here}
        if self.access_point == other.access_point:
            self.ruling, self.meter, self.release = other.ruling, other.meter, other.release

    def heard(
        self,
        terminal: Terminal,
        flows: Iterable[Flow],
        told_by: str | None,
        period_s: float,
        now: float,
        cut: bool = False,
        rides: str = "",
    ) -> None:
        """`told_by`: the agent that tells, its own; None: its gateway's tells, which counts from another
        beginning. What who told before said of round trips is forgotten: he may have been somebody else.
        `cut`: more was told than these flows; `rides`: by which uplinks its packets go."""
        before, teller = self._sharers.get(terminal.name), told_by or ""
        if before is not None and before.told_by != teller:
            before = replace(before, heard_at=float("-inf"), bytes_sent={}, quiet_bytes={}, least={})
        addresses = {str(at.address) for at in terminal.own}
        sharer = sharers.heard(before, terminal.name, addresses, tuple(flows), now, period_s, cut, rides)
        self._sharers[terminal.name] = replace(sharer, told_by=teller)
        self._stale = True

    def decide(self, now: float, probed: Probed) -> None:
        """Or not yet: nothing is new, or so many report that it would be decided all the time."""
        at_once = self._stale and len(self._sharers) <= FEW
        if not at_once and now - self._decided_at < TICK_S:
            return
        access_point = self.access_point
        if self.meter is not None:
            uses = self.meter.uses(self._sharers.values(), self.ruling, now)
            if access_point.bandwidth_bps is None:
                by_trains = partial(probed, self.site.name, access_point.name, now)
                measured_bps = self.meter.look(uses, self.ruling.active, now, by_trains)
                access_point = replace(access_point, bandwidth_bps=measured_bps)
            else:  # of a measured one less is allowed where less comes: slower air and a guest look alike there
                held = [use for use in uses if use.terminal not in self.unheld and not self.unseen.get(use.terminal)]
                explained = explained_us(self.ruling)
                bps = access_point.bandwidth_bps
                self.release = self.release.after(held, bps, self.ruling.active, explained, now)
        self.ruling = decide(access_point, self._sharers.values(), self.ruling, now, self._released(now))
        self._decided_at, self._stale = now, False

    def _released(self, now: float) -> Released | None:
        one = self.release
        return Released(one.least_bps(now), one.queue_us) if one.is_on else None

    def held(self, terminal: str, sockets: int | None, now: float) -> None:
        """By its own agent; None: that one holds nothing. Of a connection that has just begun none is counted yet."""
        cap = self.ruling.caps.get(terminal)
        if sockets is None or cap is None or not cap.windows or sockets >= cap.connections:
            self._short_since.pop(terminal, None)
            self.short.discard(terminal)
        elif now - self._short_since.setdefault(terminal, now) >= SHORT_S:
            self.short.add(terminal)

    def windows(self, terminal: str) -> Mapping[Pair, Window]:
        cap = self.ruling.caps.get(terminal)
        return cap.windows if cap else {}
