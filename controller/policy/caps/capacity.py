# SPDX-License-Identifier: Apache-2.0
"""The capacity of an access point that gateway.yaml does not give: from deliveries, and until then from trains.

The sum that its terminals deliver within a second is a lower bound. It is the capacity while their packets stand in a
queue. Nobody is capped before such a queue has stood for a second. Under caps there is no queue, and the caps bound the
deliveries. So each change is a trial, and the deliveries that follow judge it.

              more delivered ─► the figure is that
    figure ──► caps are used up: a little more is allowed ─► as much more came: kept, and more is tried
       ▲                                                 └─► not so: the figure is what came, and some seconds of rest
       └────── a queue stands, and less comes: no more is allowed ─► it still comes: kept
                                                                 └─► less comes by as much: it was no queue; undone

Round trips alone decide nothing: over the air they grow now and then without a queue of ours.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from controller.policy.bandwidth.rates import FusedRate
from controller.policy.caps.flows import OVER_S, PACKET_BYTES, PAYLOAD_BYTES, Pair
from controller.policy.caps.sharers import Sharer
from controller.policy.caps.terminal_cap import TerminalCap
from controller.policy.caps.windows import SEGMENT_US

LEAST_BPS, MOST_BPS = 10_000.0, 1e12
QUEUED_FACTOR, QUEUED_US = 1.05, 5000  # a round trip above so much has a queue in it, or something like it
QUEUED_SEGMENTS = 20  # that stand there where no cap is used up: a call's few packets that are late are no queue
MOSTLY = 0.75  # of what is delivered comes through that queue
USED = 0.8  # of what a terminal may deliver: no less, and its cap is what holds it
LONGER = 1.1  # round trips
MORE, LESS = 1.02, 0.95  # of the figure: what is between is the same
FIRST_STEP, MOST_STEP = 0.1, 0.5  # by what part more is allowed
WIDEST_STEP = 4.0  # where less is no whole segment for anybody
SETTLES_S = 1.0  # until new caps are in force, besides two round trips
RESTS_S, MOST_RESTS_S = 10.0, 80.0
KEPT_S = 300.0  # a figure, while nothing comes that could confirm it


@dataclass(frozen=True, slots=True)
class Use:
    """What one terminal makes of the air just now."""

    terminal: str
    bps: float
    granted_bps: float | None = None  # what its caps let through; None: it has none
    segments: int = 0  # of its caps together
    rtt_us: int | None = None  # where that is the least above the shortest; None: not known
    shortest_us: int | None = None

    @property
    def waits(self) -> bool:
        if self.rtt_us is None or self.shortest_us is None:
            return False
        return self.rtt_us > QUEUED_FACTOR * self.shortest_us + QUEUED_US

    @property
    def waiting_segments(self) -> float:
        if self.rtt_us is None or self.shortest_us is None:
            return 0.0
        return self.bps * max(0, self.rtt_us - self.shortest_us) / SEGMENT_US

    @property
    def is_held(self) -> bool:
        return self.granted_bps is not None and self.bps >= USED * self.granted_bps


@dataclass(frozen=True, slots=True)
class Trial:
    base_bps: float  # the figure before it
    part: float  # of that by which it is more, or less where this is negative
    who: frozenset[str]
    before_bps: float  # that these delivered
    segments: int  # that they might have on their way
    rtt_us: float  # the mean of theirs
    active: int
    until: float

    def allowed(self, who: Collection[Use]) -> float:
        """The part by which more is allowed, or less; windows are of whole segments."""
        return sum(use.segments for use in who) / self.segments - 1 if self.segments else self.part

    def is_none(self, who: Collection[Use]) -> bool:
        """What was to be more is the same for everybody."""
        return 0 < self.part < WIDEST_STEP and self.allowed(who) <= 0


@dataclass(frozen=True, slots=True)
class AirRate:
    """A new one is made with every look."""

    bps: float | None = None  # None: not known
    least_bps: float = 0.0  # that came through when this was confirmed last
    most_bps: float | None = None  # that was allowed, and did not come; None: no more was tried
    at: float = 0.0  # when that was
    active: int = 0
    trial: Trial | None = None
    queued_since: float | None = None
    low_since: float | None = None  # a queue stands, and less comes than the figure
    tries_at: float = 0.0  # not before
    lowers_at: float = 0.0
    rests_s: float = RESTS_S  # after it was lowered for nothing
    probed: bool = False  # by trains, and by nothing that was delivered yet

    def after(self, uses: Collection[Use], active: int, now: float, may_try: bool = True) -> AirRate:
        """`active`: how many terminals share the air; `may_try`: the figure may become another one as a trial."""
        delivered_bps = min(sum(use.bps for use in uses), MOST_BPS)
        if delivered_bps < LEAST_BPS:
            return self._idle(now)
        rate = self._looked(uses, delivered_bps, now)
        if rate.bps is None:
            return rate._first(uses, delivered_bps, now)
        here = {use.terminal for use in uses}
        if rate.trial is not None and (rate.trial.active != active or not rate.trial.who <= here):
            rate = replace(rate, bps=rate.trial.base_bps, trial=None)
        if rate.active != active:
            rate = replace(rate, active=active, low_since=None, tries_at=max(rate.tries_at, now + SETTLES_S))
        if delivered_bps > MORE * (rate.bps or 0.0):
            rate = rate._confirmed(delivered_bps, delivered_bps, now)
        if not may_try:
            bps = rate.trial.base_bps if rate.trial else rate.bps
            return replace(rate, bps=bps, trial=None, low_since=None, tries_at=now + RESTS_S)
        if rate.trial is None:
            return rate._tried(uses, delivered_bps, now)
        who = [use for use in uses if use.terminal in rate.trial.who]
        if rate.trial.is_none(who):
            return replace(rate, bps=rate.trial.base_bps)._begun(2 * rate.trial.part, who, now)
        return rate if now < rate.trial.until else rate._judged(rate.trial, who, delivered_bps, now)

    @property
    def asks_trains(self) -> bool:
        """Nothing was delivered yet that tells more."""
        return self.trial is None and (self.bps is None or self.probed)

    def by_trains(self, found: FusedRate | None, now: float) -> AirRate:
        """`found`: what they tell; None: nothing of late."""
        if found is None:
            return AirRate(queued_since=self.queued_since, active=self.active) if self.probed else self
        bps = min(max(found.bps, LEAST_BPS), MOST_BPS)
        if self.probed and (self.bps, self.at) == (bps, found.at):
            return self
        most_bps = found.most_bps if math.isfinite(found.most_bps) else None
        rate = replace(self, bps=bps, least_bps=min(found.least_bps, bps), most_bps=most_bps, at=found.at)
        return replace(rate, probed=True, low_since=None, tries_at=now + SETTLES_S)

    def _idle(self, now: float) -> AirRate:
        """What is not confirmed for long is forgotten."""
        bps = self.trial.base_bps if self.trial is not None else self.bps
        if bps is None or now - self.at > KEPT_S:
            return AirRate()
        return replace(self, bps=bps, trial=None, queued_since=None, low_since=None, active=0)

    def _looked(self, uses: Collection[Use], delivered_bps: float, now: float) -> AirRate:
        queued = sum(use.bps for use in uses if use.waits) >= MOSTLY * delivered_bps
        low = self.bps is not None and self.trial is None and delivered_bps < LESS * self.bps
        full = queued and (_held_bps(uses) >= delivered_bps / 2 or _waiting(uses) >= QUEUED_SEGMENTS)
        return replace(
            self,
            queued_since=(now if self.queued_since is None else self.queued_since) if queued else None,
            low_since=(now if self.low_since is None else self.low_since) if low and full else None,
        )

    def _first(self, uses: Collection[Use], delivered_bps: float, now: float) -> AirRate:
        stands = self.queued_since is not None and now - self.queued_since >= OVER_S
        if not stands or _waiting(uses) < QUEUED_SEGMENTS:
            return self
        return replace(self._confirmed(delivered_bps, delivered_bps, now), tries_at=now + RESTS_S)

    def _confirmed(self, bps: float, delivered_bps: float, now: float) -> AirRate:
        most_bps = self.most_bps if self.most_bps is not None and self.most_bps > bps else None
        return replace(self, bps=bps, least_bps=min(bps, delivered_bps), most_bps=most_bps, at=now, probed=False)

    def _tried(self, uses: Collection[Use], delivered_bps: float, now: float) -> AirRate:
        assert self.bps is not None
        rate = self
        if delivered_bps >= LESS * self.bps:
            rate = self._confirmed(self.bps, delivered_bps, now)
        if self.low_since is not None and now - self.low_since >= OVER_S and now >= self.lowers_at:
            return rate._begun(delivered_bps / self.bps - 1, uses, now)
        if now >= self.tries_at and _held_bps(uses) >= delivered_bps / 2:
            return rate._begun(FIRST_STEP, [use for use in uses if use.is_held], now)
        return rate

    def _begun(self, part: float, who: Collection[Use], now: float) -> AirRate:
        assert self.bps is not None
        longest_s = max((use.rtt_us or 0 for use in who), default=0) / 1e6
        until = now + SETTLES_S + OVER_S + 2 * longest_s
        names = frozenset(use.terminal for use in who)
        before_bps, segments = sum(use.bps for use in who), sum(use.segments for use in who)
        trial = Trial(self.bps, part, names, before_bps, segments, _rtt_us(who), self.active, until)
        return replace(self, bps=min(self.bps * (1 + part), MOST_BPS), trial=trial, low_since=None)

    def _judged(self, trial: Trial, who: Collection[Use], delivered_bps: float, now: float) -> AirRate:
        assert self.bps is not None
        came = sum(use.bps for use in who) / trial.before_bps if trial.before_bps else 0.0
        followed = came - 1 >= trial.allowed(who) / 2
        if trial.part < 0:
            slower = _rtt_us(who) > LONGER * trial.rtt_us  # with less on its way: the air itself is
            return self._lowered(trial, None if followed or slower else came, delivered_bps, now)
        earned_bps = max(trial.base_bps, min(self.bps, max(delivered_bps, trial.base_bps * came)))
        rate = replace(self._confirmed(earned_bps, delivered_bps, now), trial=None)
        if followed:
            return rate._begun(min(2 * trial.part, MOST_STEP), who, now)
        return replace(rate, most_bps=self.bps, tries_at=now + RESTS_S)

    def _lowered(self, trial: Trial, part: float | None, delivered_bps: float, now: float) -> AirRate:
        """`part`: only that is delivered of what was before, for no queue stood; None: it was right. What is allowed
        then lets through what came before, and no more."""
        assert self.bps is not None
        if part is None:
            rate = self._confirmed(self.bps, delivered_bps, now)
            return replace(rate, trial=None, most_bps=trial.base_bps, rests_s=RESTS_S, tries_at=now + RESTS_S)
        bps = min(trial.base_bps, self.bps / part) if part > 0 else trial.base_bps
        rests_s = min(2 * self.rests_s, MOST_RESTS_S)
        return replace(self, bps=bps, trial=None, rests_s=rests_s, lowers_at=now + self.rests_s, probed=False)


def _held_bps(uses: Collection[Use]) -> float:
    return sum(use.bps for use in uses if use.is_held)


def _rtt_us(uses: Collection[Use]) -> float:
    """Their mean; 0: not known."""
    known = [use.rtt_us for use in uses if use.rtt_us is not None]
    return sum(known) / len(known) if known else 0.0


def _waiting(uses: Collection[Use]) -> float:
    """Segments in the queue."""
    return sum(use.waiting_segments for use in uses)


def use(sharer: Sharer, bps: float, cap: TerminalCap | None) -> Use:
    """`bps`: what it delivers; `cap` is None where nothing was decided for it."""
    srtts: dict[Pair, int] = {}
    for path in (path for live in sharer.live for path in live.in_use if path.srtt_us is not None):
        srtts[path.pair] = min(path.srtt_us or 0, srtts.get(path.pair, path.srtt_us or 0))
    shortest = cap.shortest_us if cap is not None else {}
    known = [pair for pair in srtts if pair in shortest]
    least = min(known, key=lambda pair: srtts[pair] / shortest[pair], default=None)
    granted_bps = _granted_bps(sharer, cap, srtts) if cap is not None else None
    segments = (cap.most_segments or 0) if cap is not None else 0
    if least is None:
        return Use(sharer.terminal, bps, granted_bps, segments)
    return Use(sharer.terminal, bps, granted_bps, segments, srtts[least], shortest[least])


def _granted_bps(sharer: Sharer, cap: TerminalCap, srtts: Mapping[Pair, int]) -> float | None:
    """Of its connections together; None: some have no cap."""
    total = 0.0
    for live in sorted(sharer.live, key=lambda one: one.joined)[: sharer.live_connections]:
        pairs = [path.pair for path in live.in_use if path.pair in cap.windows and path.pair in srtts]
        windows = [(cap.windows[pair], srtts[pair]) for pair in pairs]
        if not windows:
            return None
        window, srtt_us = max(windows, key=lambda each: each[0].most)
        granted_bps = window.most * SEGMENT_US / srtt_us
        paced_bps = window.pace_bps * PACKET_BYTES / PAYLOAD_BYTES
        total += min(granted_bps, paced_bps) if paced_bps else granted_bps
    return total or None
