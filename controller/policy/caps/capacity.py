# SPDX-License-Identifier: Apache-2.0
"""The capacity of an access point, if gateway.yaml has none: from deliveries, and before these from packet trains.

The sum that its terminals deliver within a second is a lower bound. While their packets stand in a queue, it is the
capacity. No terminal is capped before such a queue has lasted a second. Under caps there is no queue, and the caps
bound the deliveries. So each change is a trial, and the following deliveries decide on it.

              more delivered ─► the figure is that
    figure ──► caps are used up: a little more is allowed ─► as much more came: kept, and more is tried
       ▲                                                 └─► not so: the figure is what came, and some seconds of rest
       └────── a queue exists, and less comes: no more is allowed ─► it still comes: kept
                                                                 └─► less comes by as much: it was no queue; undone

Round trips alone decide nothing: over the air they sometimes grow without a queue of the terminals.
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

LEAST_BPS, MOST_BPS = 10_000.0, 1e12  # range of a capacity; fewer deliveries count as idle
QUEUED_FACTOR, QUEUED_US = 1.05, 5000  # a round trip above shortest * factor + µs counts as queued
QUEUED_SEGMENTS = 20  # fewest in a queue while no terminal uses its caps up: a call's few late packets are no queue
QUEUED_SHARE = 0.75  # above this share of deliveries from terminals with queued packets, the access point has a queue
CAP_LIMITED_SHARE = 0.8  # above this share of the rate that its caps allow, a terminal uses its caps up
LONGER_RTT_FACTOR = 1.1  # round trips above this multiple of those before a trial are longer
MORE, LESS = 1.02, 0.95  # deliveries between these multiples of the figure leave it unchanged
FIRST_STEP, MOST_STEP = 0.1, 0.5  # share by which a trial allows more
WIDEST_STEP = 4.0  # limit of a trial's share if smaller ones add no whole segment for any terminal
SETTLES_S = 1.0  # until new caps are in force, plus two round trips
RESTS_S, MOST_RESTS_S = 10.0, 80.0  # between trials; doubles after a useless lowering
KEPT_S = 300.0  # a figure without confirmation expires


@dataclass(frozen=True, slots=True)
class Use:
    """One terminal's present use of the airtime."""

    terminal: str
    bps: float
    granted_bps: float | None = None  # rate that its caps allow; None: a connection has no cap
    segments: int = 0  # sum of its caps
    rtt_us: int | None = None  # present round trip of the pair that is least above its shortest; None: unknown
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
    def is_cap_limited(self) -> bool:
        return self.granted_bps is not None and self.bps >= CAP_LIMITED_SHARE * self.granted_bps


@dataclass(frozen=True, slots=True)
class Trial:
    base_bps: float  # the figure before the trial
    part: float  # relative change of the figure; negative: less
    terminals: frozenset[str]  # terminals whose caps change
    before_bps: float  # their deliveries before the trial
    segments: int  # the sum of their caps before the trial
    rtt_us: float  # mean of their round trips before the trial
    active: int
    until: float

    def allowed(self, uses: Collection[Use]) -> float:
        """Return the relative change that windows of whole segments allow."""
        return sum(use.segments for use in uses) / self.segments - 1 if self.segments else self.part

    def is_none(self, uses: Collection[Use]) -> bool:
        """Return whether an increase changed no window."""
        return 0 < self.part < WIDEST_STEP and self.allowed(uses) <= 0


@dataclass(frozen=True, slots=True)
class AirRate:
    """The capacity estimate."""

    bps: float | None = None
    least_bps: float = 0.0  # delivered at the last confirmation
    most_bps: float | None = None  # allowed but not delivered; None: no more was tried
    at: float = 0.0  # time of the last confirmation
    active: int = 0
    trial: Trial | None = None
    queued_since: float | None = None
    low_since: float | None = None  # a queue exists, and deliveries are below the figure
    tries_at: float = 0.0  # earliest next trial
    lowers_at: float = 0.0  # earliest next lowering
    rests_s: float = RESTS_S  # pause after a useless lowering
    probed: bool = False  # from packet trains; no delivery has confirmed it yet

    def after(self, uses: Collection[Use], active: int, now: float, may_try: bool = True) -> AirRate:
        """Return the next estimate. `active` terminals share the air; `may_try` allows trials."""
        delivered_bps = min(sum(use.bps for use in uses), MOST_BPS)
        if delivered_bps < LEAST_BPS:
            return self._idle(now)
        rate = self._with_queue(uses, delivered_bps, now)
        if rate.bps is None:
            return rate._first_figure(uses, delivered_bps, now)
        here = {use.terminal for use in uses}
        if rate.trial is not None and (rate.trial.active != active or not rate.trial.terminals <= here):
            rate = replace(rate, bps=rate.trial.base_bps, trial=None)
        if rate.active != active:
            rate = replace(rate, active=active, low_since=None, tries_at=max(rate.tries_at, now + SETTLES_S))
        if delivered_bps > MORE * (rate.bps or 0.0):
            rate = rate._with_figure(delivered_bps, delivered_bps, now)
        if not may_try:
            bps = rate.trial.base_bps if rate.trial else rate.bps
            return replace(rate, bps=bps, trial=None, low_since=None, tries_at=now + RESTS_S)
        if rate.trial is None:
            return rate._next_trial(uses, delivered_bps, now)
        who = [use for use in uses if use.terminal in rate.trial.terminals]
        if rate.trial.is_none(who):
            return replace(rate, bps=rate.trial.base_bps)._trial_begun(2 * rate.trial.part, who, now)
        return rate if now < rate.trial.until else rate._trial_judged(rate.trial, who, delivered_bps, now)

    @property
    def asks_trains(self) -> bool:
        """Return whether packet trains are of use: no delivery has shown the capacity yet."""
        return self.trial is None and (self.bps is None or self.probed)

    def by_trains(self, found: FusedRate | None, now: float) -> AirRate:
        """Return the estimate after packet trains. `found` is None without a recent result."""
        if found is None:
            return AirRate(queued_since=self.queued_since, active=self.active) if self.probed else self
        bps = min(max(found.bps, LEAST_BPS), MOST_BPS)
        if self.probed and (self.bps, self.at) == (bps, found.at):
            return self
        most_bps = found.most_bps if math.isfinite(found.most_bps) else None
        rate = replace(self, bps=bps, least_bps=min(found.least_bps, bps), most_bps=most_bps, at=found.at)
        return replace(rate, probed=True, low_since=None, tries_at=now + SETTLES_S)

    def _idle(self, now: float) -> AirRate:
        bps = self.trial.base_bps if self.trial is not None else self.bps
        if bps is None or now - self.at > KEPT_S:
            return AirRate()
        return replace(self, bps=bps, trial=None, queued_since=None, low_since=None, active=0)

    def _with_queue(self, uses: Collection[Use], delivered_bps: float, now: float) -> AirRate:
        """Return the estimate with the times since when a queue exists and since when deliveries are low."""
        queued = sum(use.bps for use in uses if use.waits) >= QUEUED_SHARE * delivered_bps
        low = self.bps is not None and self.trial is None and delivered_bps < LESS * self.bps
        full = queued and (_cap_limited_bps(uses) >= delivered_bps / 2 or _waiting(uses) >= QUEUED_SEGMENTS)
        return replace(
            self,
            queued_since=(now if self.queued_since is None else self.queued_since) if queued else None,
            low_since=(now if self.low_since is None else self.low_since) if low and full else None,
        )

    def _first_figure(self, uses: Collection[Use], delivered_bps: float, now: float) -> AirRate:
        """Return the first figure, once a queue has stood for OVER_S."""
        stands = self.queued_since is not None and now - self.queued_since >= OVER_S
        if not stands or _waiting(uses) < QUEUED_SEGMENTS:
            return self
        return replace(self._with_figure(delivered_bps, delivered_bps, now), tries_at=now + RESTS_S)

    def _with_figure(self, bps: float, delivered_bps: float, now: float) -> AirRate:
        most_bps = self.most_bps if self.most_bps is not None and self.most_bps > bps else None
        return replace(self, bps=bps, least_bps=min(bps, delivered_bps), most_bps=most_bps, at=now, probed=False)

    def _next_trial(self, uses: Collection[Use], delivered_bps: float, now: float) -> AirRate:
        """Return the estimate, with a trial if one is due: of less if deliveries are low, otherwise of more."""
        assert self.bps is not None
        rate = self
        if delivered_bps >= LESS * self.bps:
            rate = self._with_figure(self.bps, delivered_bps, now)
        if self.low_since is not None and now - self.low_since >= OVER_S and now >= self.lowers_at:
            return rate._trial_begun(delivered_bps / self.bps - 1, uses, now)
        if now >= self.tries_at and _cap_limited_bps(uses) >= delivered_bps / 2:
            return rate._trial_begun(FIRST_STEP, [use for use in uses if use.is_cap_limited], now)
        return rate

    def _trial_begun(self, part: float, uses: Collection[Use], now: float) -> AirRate:
        assert self.bps is not None
        longest_s = max((use.rtt_us or 0 for use in uses), default=0) / 1e6
        until = now + SETTLES_S + OVER_S + 2 * longest_s
        names = frozenset(use.terminal for use in uses)
        before_bps, segments = sum(use.bps for use in uses), sum(use.segments for use in uses)
        trial = Trial(self.bps, part, names, before_bps, segments, _rtt_us(uses), self.active, until)
        return replace(self, bps=min(self.bps * (1 + part), MOST_BPS), trial=trial, low_since=None)

    def _trial_judged(self, trial: Trial, uses: Collection[Use], delivered_bps: float, now: float) -> AirRate:
        """Return the estimate after a trial, by the deliveries that followed."""
        assert self.bps is not None
        came = sum(use.bps for use in uses) / trial.before_bps if trial.before_bps else 0.0
        followed = came - 1 >= trial.allowed(uses) / 2
        if trial.part < 0:
            # With fewer segments in flight, longer round trips mean that the air itself is slower.
            slower = _rtt_us(uses) > LONGER_RTT_FACTOR * trial.rtt_us
            return self._lowered(trial, None if followed or slower else came, delivered_bps, now)
        earned_bps = max(trial.base_bps, min(self.bps, max(delivered_bps, trial.base_bps * came)))
        rate = replace(self._with_figure(earned_bps, delivered_bps, now), trial=None)
        if followed:
            return rate._trial_begun(min(2 * trial.part, MOST_STEP), uses, now)
        return replace(rate, most_bps=self.bps, tries_at=now + RESTS_S)

    def _lowered(self, trial: Trial, part: float | None, delivered_bps: float, now: float) -> AirRate:
        """Return the estimate after a trial that lowered the figure.

        `part` is None if lowering was right. Otherwise there was no queue, and deliveries fell to this share. The
        figure then rises to what restores them, at most to the one before the trial.
        """
        assert self.bps is not None
        if part is None:
            rate = self._with_figure(self.bps, delivered_bps, now)
            return replace(rate, trial=None, most_bps=trial.base_bps, rests_s=RESTS_S, tries_at=now + RESTS_S)
        bps = min(trial.base_bps, self.bps / part) if part > 0 else trial.base_bps
        rests_s = min(2 * self.rests_s, MOST_RESTS_S)
        return replace(self, bps=bps, trial=None, rests_s=rests_s, lowers_at=now + self.rests_s, probed=False)


def _cap_limited_bps(uses: Collection[Use]) -> float:
    return sum(use.bps for use in uses if use.is_cap_limited)


def _rtt_us(uses: Collection[Use]) -> float:
    known = [use.rtt_us for use in uses if use.rtt_us is not None]
    return sum(known) / len(known) if known else 0.0


def _waiting(uses: Collection[Use]) -> float:
    return sum(use.waiting_segments for use in uses)


def use(sharer: Sharer, bps: float, cap: TerminalCap | None) -> Use:
    """Return a sharer's use of the air. `bps` is its delivery rate; `cap` is None without a decision."""
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
    """Return the rate that all its caps together allow. None: a connection has no cap."""
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
