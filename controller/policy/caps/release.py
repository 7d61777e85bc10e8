# SPDX-License-Identifier: Apache-2.0
"""The release of an access point's caps, while a queue stands that they do not explain and capped terminals get less.

A sender without a cap is there. Its window grows with the queue, while a window made for an empty queue gets less and
less. So while caps are released, windows grow with the round trip as well (windows.py), and each terminal gets most of
an equal part, as far as it delivers it.

            terminals use their windows up, wait in that queue, and get less than their part
    held ─────────────────────────────────────────────────────────────────────────────────────► tried
     ▲ ▲        they get no more after 5 s: nothing is tried for 10 s, then 20, up to 80         │ │
     │ └─────────────────────────────────────────────────────────────────────────────────────────┘ │ they get more
     │        no such queue stands for 10 s; or 30 s have passed, then 60, up to 300               ▼
     └───────────────────────────────────────────────────────────────────────────────────────── released

A trial costs a longer queue and no more. A terminal that lies about its round trips changes its own window alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum, auto
from statistics import mean

from controller.policy.caps.capacity import Use

STARVED_PART = 0.9  # of its part: who gets less
LESS_PART = 0.9  # of the bandwidth: who is held gets less together, so somebody else has the rest
USED_PART = 0.6  # of what its window lets through: who uses that has used it up
QUEUED_FACTOR, QUEUED_US = 1.25, 2000  # what a round trip may have above the queue that the caps explain
STARVED_S = 0.75
SETTLES_S = 2.0  # after somebody joined or left: what is counted by the second is of before
TRIED_S = 5.0  # and two round trips, which count as no more than LONGEST_S each
COUNTED_S = 3.0  # of it, at its end: of one moment alone a queue that overflowed may be what is seen
LONGEST_S = 0.6
MORE = 1.1  # that they get, or nothing was gained
RESTS_S, MOST_RESTS_S = 10.0, 80.0
LASTS_S, MOST_LASTS_S = 30.0, 300.0
SOON_S = 60.0  # after it ended: what is released again so soon lasts longer
CALM_S = 10.0  # without such a queue
RAMP_S = 0.5  # until all that is given at least is given
GIVEN_PART = 0.95  # of an equal part: at least
CATCHES_UP_S = 12.0  # at first it is of a part without guests: their windows are the larger ones, and have to yield
COMES_PART, COMES_S = 0.7, 3.0  # of what is given: less comes through for so long, and less is given
AGAIN_S = 10.0  # until as much is given again


class State(Enum):
    HELD = auto()
    TRIED = auto()
    RELEASED = auto()


@dataclass(frozen=True, slots=True)
class Starved:
    """The terminal that got least."""

    terminal: str
    bps: float
    part_bps: float
    queue_us: float  # that it waited in
    explained_us: float


@dataclass(frozen=True, slots=True)
class Release:
    """A new one is made with every look."""

    state: State = State.HELD
    since: float = 0.0
    starved: Starved | None = None  # when it was tried last
    starved_since: float | None = None
    before_bps: float = 0.0  # that these delivered, before it was tried
    who: frozenset[str] = frozenset()
    tried_at: float = 0.0
    until: float = 0.0
    got_bps: tuple[float, ...] = ()  # by these, while it is tried, of late
    tries_at: float = 0.0  # not before
    rests_s: float = RESTS_S
    lasts_s: float = LASTS_S
    calm_since: float | None = None
    queue_us: float = 0.0  # that stands now
    given_bps: float = 0.0  # to each terminal, at least
    short_since: float | None = None  # less than that comes through
    active: int = 0
    active_since: float = 0.0
    at: float = 0.0

    @property
    def is_on(self) -> bool:
        return self.state is not State.HELD

    @property
    def because(self) -> str | None:
        """Why caps are released; None: they are not."""
        one = self.starved
        if one is None or not self.is_on:
            return None
        return (
            f"a queue of {one.queue_us / 1000:.0f} ms stood there, of which caps explain "
            f"{one.explained_us / 1000:.0f} ms, and {one.terminal} got {one.bps / 1e6:.2g} Mbit/s of its "
            f"{one.part_bps / 1e6:.2g}: somebody sends there whom nobody holds"
        )

    def least_bps(self, now: float) -> float:
        """That each terminal is given now."""
        return self.given_bps * min(1.0, (now - self.since) / RAMP_S if self.state is State.TRIED else 1.0)

    def after(
        self,
        uses: Collection[Use],
        bandwidth_bps: float,
        active: int,
        explained_us: float,
        now: float,
    ) -> Release:
        """`uses`: of terminals that somebody holds; `active`: how many share the air; `explained_us`: the queue that
        caps leave where all are held."""
        if not uses:
            return Release(tries_at=self.tries_at, rests_s=self.rests_s, lasts_s=self.lasts_s)
        part_bps = bandwidth_bps / (active + 1)  # of whom nobody holds there is one at least
        waiting = [use for use in uses if _queue_us(use) > _most_queue_us(use, explained_us)]
        found = replace(self, queue_us=max(map(_queue_us, waiting), default=0.0), at=now)
        if active != self.active:
            found = replace(found, active=active, active_since=now)
        if self.state is State.HELD:
            has_guest = sum(use.bps for use in uses) < LESS_PART * bandwidth_bps
            starving = [use for use in waiting if has_guest and _starves(use, part_bps)]
            return found._held(starving, part_bps, explained_us, now)
        if self.state is State.TRIED:
            return replace(found, given_bps=GIVEN_PART * bandwidth_bps / max(1, active))._tried(uses, now)
        if now - self.tried_at >= CATCHES_UP_S:
            found = found._given(uses, GIVEN_PART * part_bps, now - self.at)
        return found._released(bool(waiting), now)

    def _held(
        self,
        starving: Collection[Use],
        part_bps: float,
        explained_us: float,
        now: float,
    ) -> Release:
        if not starving or now - self.active_since < SETTLES_S:
            return replace(self, starved_since=None)
        since = now if self.starved_since is None else self.starved_since
        if now - since < STARVED_S or now < self.tries_at:
            return replace(self, starved_since=since)
        least = min(starving, key=_gets_bps)
        longest_s = max(min(LONGEST_S, (use.rtt_us or 0) / 1e6) for use in starving)
        return replace(
            self,
            state=State.TRIED,
            since=now,
            tried_at=now,
            starved=Starved(least.terminal, _gets_bps(least), part_bps, _queue_us(least), explained_us),
            starved_since=None,
            before_bps=sum(map(_gets_bps, starving)),
            got_bps=(),
            who=frozenset(use.terminal for use in starving),
            until=now + TRIED_S + 2 * longest_s,
        )

    def _tried(self, uses: Collection[Use], now: float) -> Release:
        if now < self.until - COUNTED_S:
            return self
        gets = [use.bps for use in uses if use.terminal in self.who]
        got_bps = (*self.got_bps, *([sum(gets) * len(self.who) / len(gets)] if gets else ()))
        if now < self.until:
            return replace(self, got_bps=got_bps)
        if not got_bps or mean(got_bps) < MORE * self.before_bps:
            rests_s = min(2 * self.rests_s, MOST_RESTS_S)
            return replace(self, state=State.HELD, since=now, tries_at=now + self.rests_s, rests_s=rests_s)
        again = self.tries_at and now - self.tries_at < SOON_S
        lasts_s = min(2 * self.lasts_s, MOST_LASTS_S) if again else LASTS_S
        return replace(
            self, state=State.RELEASED, since=now, lasts_s=lasts_s, rests_s=RESTS_S, calm_since=None, short_since=None
        )

    def _given(self, uses: Collection[Use], most_bps: float, seconds: float) -> Release:
        """No more than comes through: where the bandwidth is none, or others do not yield, it would only be lost."""
        comes_bps = sum(use.bps for use in uses) / len(uses)
        if comes_bps >= COMES_PART * self.given_bps:
            given_bps = min(most_bps, self.given_bps + most_bps * seconds / AGAIN_S)
            return replace(self, given_bps=given_bps, short_since=None)
        since = self.at if self.short_since is None else self.short_since
        if self.at - since < COMES_S:
            return replace(self, short_since=since)
        return replace(self, given_bps=min(most_bps, comes_bps), short_since=None)

    def _released(self, waits: bool, now: float) -> Release:
        calm_since = None if waits else now if self.calm_since is None else self.calm_since
        calm = calm_since is not None and now - calm_since >= CALM_S
        if calm or now - self.since >= self.lasts_s:
            return replace(self, state=State.HELD, since=now, tries_at=now, calm_since=None)
        return replace(self, calm_since=calm_since)


def _queue_us(use: Use) -> float:
    if use.rtt_us is None or use.shortest_us is None:
        return 0.0
    return use.rtt_us - use.shortest_us


def _most_queue_us(use: Use, explained_us: float) -> float:
    return QUEUED_FACTOR * explained_us + (QUEUED_FACTOR - 1) * (use.shortest_us or 0) + QUEUED_US


def _gets_bps(use: Use) -> float:
    """Of late, or just now, as its window is used up."""
    return min(use.bps, use.granted_bps or use.bps)


def _starves(use: Use, part_bps: float) -> bool:
    used_up = use.granted_bps is not None and use.bps >= USED_PART * use.granted_bps
    return used_up and _gets_bps(use) < STARVED_PART * part_bps
