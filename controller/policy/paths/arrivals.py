# SPDX-License-Identifier: Apache-2.0
"""Faults of an uplink that arriving packets reveal: silent copies, and unidentified packets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from controller.model.text import counted
from controller.protocol.reports import PathCopies

# Silent copies: an uplink delivers none while the others do (a latent error, IEEE 802.1CB, 7.4.4). Nothing is lost yet,
# but one more failure would lose everything. Nothing is concluded while the other end does not copy everything, nor
# from a handful of packets.

SILENT_FOR_S = 0.9  # one report interval, less some jitter
ENOUGH_PACKETS = 10  # packets that other uplinks delivered meanwhile


@dataclass(frozen=True, slots=True)
class UplinkArrivals:
    """Copies that one uplink delivered, and the others' since its last delivery."""

    brought: int
    since: float  # the last delivery, or the last moment without a basis for a conclusion
    others: int = 0
    silent: str | None = None  # the reason


@dataclass(frozen=True, slots=True)
class SiteArrivals:
    """The arrivals at a site, by uplink."""

    uplinks: Mapping[str, UplinkArrivals] = field(default_factory=dict)
    all_is_copied: bool = False  # at the last report; a conclusion needs two such reports in a row

    @property
    def silent(self) -> dict[str, str]:
        return {name: one.silent for name, one in self.uplinks.items() if one.silent is not None}


def silence_after(site: SiteArrivals, brought: Mapping[str, int], all_is_copied: bool, now: float) -> SiteArrivals:
    """Return the state after a report. `brought` counts from the order on; a lower count means a restart."""
    known = site.uplinks
    begun = known.keys() != brought.keys() or any(brought[name] < one.brought for name, one in known.items())
    if begun or not (all_is_copied and site.all_is_copied):
        return SiteArrivals({name: UplinkArrivals(count, now) for name, count in brought.items()}, all_is_copied)
    more = {name: brought[name] - one.brought for name, one in known.items()}
    others = {name: sum(more.values()) - count for name, count in more.items()}
    return SiteArrivals(
        {
            name: UplinkArrivals(brought[name], now) if more[name] else _silent(one, others[name], now)
            for name, one in known.items()
        },
        all_is_copied,
    )


def _silent(one: UplinkArrivals, others: int, now: float) -> UplinkArrivals:
    total, for_s, silent = one.others + others, now - one.since, one.silent
    if for_s >= SILENT_FOR_S and total >= ENOUGH_PACKETS:
        silent = (
            f"no copies arrive over it: none for {for_s:.1f} s, while {counted(total, 'packets')} arrived over others"
        )
    return UplinkArrivals(one.brought, one.since, total, silent)


# Screening: an uplink that delivers no copies gets none for a while
#
#     silent ──► out ──(hold-down over, or its next hop answers)──► on trial ──► brings copies: as before
#                 ▲                                                    │
#                 └───────────── silent still: out for twice as long ──┘
#
# Meanwhile fewer uplinks protect the traffic. So its next hop is asked each second, and an answer starts a trial.

HOLD_S = 5.0  # first hold-down; doubles with each failed trial
HOLD_AT_MOST_S = 60.0
TRIAL_S = 3.0  # two reports, and the time of an order
ENOUGH_ANSWERS = 2  # one may date from before the hold-down
VAIN_AT_MOST = 5  # most doublings of ENOUGH_ANSWERS


@dataclass(frozen=True, slots=True)
class Screen:
    hold_s: float
    until: float  # end of the hold-down or the trial
    on_trial: bool = False
    answers: int = 0  # of its next hop, since screening began
    vain: int = 0  # failed trials that answers had started: the uplink carries ARP, but no copies

    @property
    def answers_enough(self) -> bool:
        return self.answers >= ENOUGH_ANSWERS << min(self.vain, VAIN_AT_MOST)


def screened(screen: Screen | None, silent: bool, now: float) -> Screen | None:
    """Return the next screening state. None: the uplink gets copies."""
    if screen is None:
        return Screen(HOLD_S, now + HOLD_S) if silent else None
    if screen.on_trial and not silent:
        return None
    if now < screen.until:
        return screen
    if not screen.on_trial:
        return replace(screen, until=now + TRIAL_S, on_trial=True)
    hold_s = min(2 * screen.hold_s, HOLD_AT_MOST_S)
    return Screen(hold_s, now + hold_s, vain=screen.vain + screen.answers_enough)


def screening_answered(screen: Screen, now: float) -> Screen:
    if screen.on_trial:
        return screen
    screen = replace(screen, answers=screen.answers + 1)
    return replace(screen, until=now + TRIAL_S, on_trial=True) if screen.answers_enough else screen


# The eliminator passes every copy of unidentified packets. The usual cause: a device merged packets (GRO, LRO), so they
# are longer than the eliminator reads.

MAX_SHARE = 0.01  # of unidentified packets in a window; a higher share is a fault
WINDOW_S = 10.0
MIN_PACKETS = 200  # with fewer, the window goes on


@dataclass(frozen=True, slots=True)
class UnidentifiedWindow:
    """A window of an uplink's counters, and the result of the window before."""

    begun: PathCopies
    since: float
    reason: str | None = None  # why duplicates pass; None: they do not


UnidentifiedWindows = Mapping[str, UnidentifiedWindow]


def unidentified_after(
    uplinks: UnidentifiedWindows, paths: Mapping[str, PathCopies], now: float
) -> dict[str, UnidentifiedWindow]:
    return {name: _next(uplinks.get(name), path, now) for name, path in paths.items()}


def _next(before: UnidentifiedWindow | None, path: PathCopies, now: float) -> UnidentifiedWindow:
    if before is None or path.arrived < before.begun.arrived or path.unidentified < before.begun.unidentified:
        return UnidentifiedWindow(path, now)  # the counters restarted
    unidentified = path.unidentified - before.begun.unidentified
    packets = path.arrived - before.begun.arrived + unidentified
    if now - before.since < WINDOW_S or packets < MIN_PACKETS:
        return before
    if unidentified <= MAX_SHARE * packets:
        return UnidentifiedWindow(path, now)
    share = f"{unidentified / packets:.0%} of {counted(packets, 'packets')} in {now - before.since:.0f} s"
    return UnidentifiedWindow(
        path, now, f"copies cannot be identified for {share}, which are too long (merged by GRO or LRO?) or damaged"
    )
