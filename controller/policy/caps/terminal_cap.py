# SPDX-License-Identifier: Apache-2.0
"""The window cap of each terminal of an access point, and the sentence that explains it.

    ideal    a terminal's share: bandwidth x shortest round trip / 1.5 kB / active terminals, with a margin
             (windows.py), and one segment more for receivers that acknowledge every second segment
    paper    the tables of paper 000, as they are printed
    off      no caps

A terminal's share is divided among its sending connections. None gets fewer than two segments; if that exceeds the
share, `ideal` also paces them. Without a needed figure there is no cap. Other terminals only count by their number, and
by round trips that several of them report for the same place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from controller.model.config import AccessPoint, CapRule
from controller.model.text import counted
from controller.policy.caps.flows import Pair
from controller.policy.caps.sharers import BULK_BYTES, Sharer, SharerPath, silent
from controller.policy.caps.windows import (
    RELEASED_SHARE,
    SEGMENT_US,
    TURNS_US,
    WON_SHARES,
    AirtimeShare,
    Window,
    bounds,
    released,
    window,
)
from controller.policy.caps.witnesses import RttWitnesses

# The sentence that explains a terminal's windows

MOST_PLACES = 3  # destinations in one sentence


def account(
    part: AirtimeShare, rtt_us: Mapping[Pair, int], srtt_us: Mapping[Pair, int], windows: Mapping[Pair, Window]
) -> str:
    """Return the sentence that explains the windows. There is at least one, with its round trips."""
    places = list({other: pair for pair in sorted(windows) for _, other in (pair,)}.items())
    rule = part.access_point.rule
    told = _paper if rule is CapRule.PAPER else _ideal
    head = f"{rule} ({part.access_point.tables})" if rule is CapRule.PAPER else f"{rule}"
    each = [
        told(part, other if len(places) > 1 else None, rtt_us[pair], srtt_us[pair], windows[pair])
        for other, pair in places[:MOST_PLACES]
    ]
    if len(places) > MOST_PLACES:
        each.append(f"and {len(places) - MOST_PLACES} more")
    connections = counted(part.connections, "connections")
    return f"{head}: {part.active} active, {', '.join(each)}, {connections}{''.join(_remarks(windows, srtt_us))}"


def _ideal(part: AirtimeShare, other: str | None, rtt_us: int, srtt_us: int, one: Window) -> str:
    bandwidth = f"{part.bandwidth_bps / 1e6:.4g} Mbit/s"
    place = f" to {other}" if other else ""
    if one.released:
        return f"released: {bandwidth} x {srtt_us / 1000:.1f} ms{place} measured now / {part.active}, {one.most} each"
    fitting = part.fitting(rtt_us)
    parted = f" of which {one.most} each" if part.connections > 1 else ""
    if part.connections == 1 and one.most != max(2, fitting + 1):
        parted = f" left at {one.most}"
    spare_us = part.spare_us(rtt_us)
    way = f"({rtt_us / 1000:.1f} + {spare_us / 1000:g})" if spare_us else f"{rtt_us / 1000:.1f}"
    return f"{bandwidth} x {way} ms{place} / {part.active} = {fitting} + 1 segments{parted}"


def _paper(part: AirtimeShare, other: str | None, rtt_us: int, srtt_us: int, one: Window) -> str:
    by_number, by_growth = bounds(part, one)
    smaller = by_number.smaller(by_growth)
    place = f" to {other}" if other else ""
    return (
        f"{by_number.most}/{by_number.least} by number, {by_growth.most}/{by_growth.least} by round-trip growth{place} "
        f"{srtt_us / rtt_us:.1f} times the shortest, {rtt_us / 1000:.1f} ms (case {one.case.name}) = "
        f"{smaller.most}/{smaller.least} segments"
    )


def _remarks(windows: Mapping[Pair, Window], srtt_us: Mapping[Pair, int]) -> Iterator[str]:
    """Yield the ends of the sentence about paces and missing lower limits."""
    paces = [one.pace_bps for one in windows.values() if one.pace_bps]
    if paces:
        yield f"; paced at {min(paces) / 1e6:.3g} Mbit/s each, because two segments each exceed its share"
    queued = [srtt_us[pair] for pair, one in windows.items() if one.queues]
    if queued:
        yield f"; no minimum while a queue persists (round trip {max(queued) / 1000:.0f} ms)"


# Paper 003, figure 4: the geometric middle of the best block sizes. Alone 128 to 512 KB, for two 2 to 128 KB, from
# three on 8 KB.
BLOCK_BYTES = (256 << 10, 16 << 10, 8 << 10)

QUEUED_FACTOR = 1.25  # tolerance: round trips vary
NEAR_US = 100.0  # precision of the queue's length


@dataclass(frozen=True, slots=True)
class TerminalCap:
    """The cap of one terminal."""

    active: bool
    connections: int  # connections that divide its share
    reason: str
    windows: Mapping[Pair, Window] = field(default_factory=dict)  # of each connection between a pair
    held_windows: Mapping[Pair, Window] = field(default_factory=dict)  # the same without a release
    most_segments: int | None = None  # sum over its connections; None: no cap
    least_segments: int | None = None
    ratio: float | None = None  # largest ratio of a round trip to its shortest; None: unknown
    doubts: tuple[str, ...] = ()
    doubted: int = 0  # disbelieved items since the start
    bounded: int = 0  # disbelieved round trips among them
    bounding: frozenset[Pair] = frozenset()  # pairs whose round trips are disbelieved now
    shortest_us: Mapping[Pair, int] = field(default_factory=dict)  # shortest round trips in use
    uplinks_key: str = ""  # key of the uplinks of these windows
    # For each connection: the cap in segments without a release, and its round trip in microseconds
    on_their_way: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Ruling:
    access_point: AccessPoint
    caps: Mapping[str, TerminalCap] = field(default_factory=dict)  # by terminal, for those that report
    active: int = 0
    block_bytes: int = 0  # 0: no recommendation


@dataclass(frozen=True, slots=True)
class _Known:
    """Round trips of the pairs of a terminal's live connections, in microseconds."""

    rtt_us: Mapping[Pair, int]  # basis of a cap; unknown ones are missing
    shortest_us: Mapping[Pair, int]  # of each pair alone
    srtt_us: Mapping[Pair, int]
    bounded: Mapping[Pair, str]  # disbelieved round trips, with the reason
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Released:
    """The limits of caps while they are released (release.py)."""

    least_bps: float  # rate of each terminal's lower limit
    queue_us: float  # present queue, which is no part of a path


def decide(
    access_point: AccessPoint,
    sharers: Collection[Sharer],
    before: Ruling | None,
    now: float,
    released: Released | None = None,
) -> Ruling:
    if access_point.rule is CapRule.OFF:
        return Ruling(access_point)
    here = [sharer for sharer in sharers if not silent(sharer, now)]
    active = sum(sharer.active for sharer in here)
    # A new bandwidth keeps the state: round trips stay known.
    if before is None or replace(before.access_point, bandwidth_bps=access_point.bandwidth_bps) != access_point:
        before = Ruling(access_point)
    witnesses, queue_us = RttWitnesses(here), explained_us(before)
    if released is not None:
        queue_us = max(queue_us, released.queue_us)
    caps = {
        sharer.terminal: _cap(access_point, sharer, witnesses, active, before, queue_us, released) for sharer in here
    }
    return Ruling(access_point, caps, active, BLOCK_BYTES[min(max(active, 1), len(BLOCK_BYTES)) - 1])


def _cap(
    access_point: AccessPoint,
    sharer: Sharer,
    witnesses: RttWitnesses,
    active: int,
    before: Ruling,
    queue_us: float,
    release: Released | None,
) -> TerminalCap:
    old = before.caps.get(sharer.terminal)
    known = _known(
        sharer, witnesses, old.shortest_us if old and old.uplinks_key == sharer.uplinks_key else {}, queue_us
    )
    bounded = (old.bounded if old else 0) + len(known.bounded.keys() - (old.bounding if old else frozenset()))
    connections = sharer.live_connections
    part = AirtimeShare(access_point, active, max(connections, 1))
    # Hysteresis only covers changes of the terminal's own round trips. Others' changes and a new bandwidth act at once.
    same = before.access_point == access_point and before.active == active
    settled = old.held_windows if old and same and old.connections == connections else {}
    measured = {} if part.wants_bandwidth else known.rtt_us
    capped = {pair: window(part, us, known.srtt_us[pair], settled.get(pair)) for pair, us in measured.items()}
    windows = capped
    if release is not None:
        has_floor = bool(sharer.reporter)  # its own agent enforces the lower limit
        shares = RELEASED_SHARE if has_floor else WON_SHARES
        windows = {
            pair: released(part, one, known.srtt_us[pair], release.least_bps, shares) for pair, one in capped.items()
        }
    most, least = _together(sharer, windows)
    return TerminalCap(
        active=sharer.active,
        connections=connections,
        reason=_reason(sharer, part, known, windows),
        windows=windows,
        held_windows=capped,
        most_segments=most,
        least_segments=least,
        ratio=known.ratio,
        doubts=(*sharer.doubts.sentences, *dict.fromkeys(known.bounded.values())),
        doubted=sharer.doubts.total + bounded,
        bounded=bounded,
        bounding=frozenset(known.bounded),
        shortest_us=known.shortest_us,
        uplinks_key=sharer.uplinks_key,
        on_their_way=_on_their_way(sharer, capped, known),
    )


def explained_us(before: Ruling) -> float:
    """Return the queue that capped connections alone may cause.

    Segments on a long path are in no queue. A kernel forgets a shorter round trip after minutes; caps computed from a
    queued one would lengthen the queue.
    """
    bandwidth_bps = before.access_point.bandwidth_bps
    every = [one for cap in before.caps.values() for one in cap.on_their_way]
    if not bandwidth_bps or _sent_bps(every, 0) <= bandwidth_bps:
        return 0.0
    short, long = 0.0, sum(segments for segments, _ in every) * SEGMENT_US / bandwidth_bps
    while long - short > NEAR_US:
        middle = (short + long) / 2
        short, long = (middle, long) if _sent_bps(every, middle) > bandwidth_bps else (short, middle)
    return long


def _sent_bps(every: Collection[tuple[int, int]], queue_us: float) -> float:
    return sum(segments * SEGMENT_US / (rtt_us + queue_us) for segments, rtt_us in every)


def _known(sharer: Sharer, witnesses: RttWitnesses, before_us: Mapping[Pair, int], queue_us: float) -> _Known:
    shortest: dict[Pair, int | None] = {}
    srtts: dict[Pair, int] = {}
    bounded: dict[Pair, str] = {}
    for path in (path for live in sharer.live for path in live.paths):
        if path.pair not in shortest:
            believed = witnesses.believed(sharer, path.pair)
            now_us = _now(believed.rtt_us, path, queue_us)
            shortest[path.pair] = _without_queue(now_us, before_us.get(path.pair), queue_us)
            if believed.doubt:
                bounded[path.pair] = believed.doubt
        if path.srtt_us is not None:
            srtts[path.pair] = min(path.srtt_us, srtts.get(path.pair, path.srtt_us))
    rtts: dict[Pair, int | None] = {}
    for live in sharer.live:
        # The subflows of a connection share a window, which must fit the longest path in use.
        ways = [shortest[path.pair] if path.pair in srtts else None for path in live.in_use]
        rtt_us = None if None in ways else max(way for way in ways if way is not None)
        for path in live.paths:
            other = rtts.get(path.pair, rtt_us)
            rtts[path.pair] = None if rtt_us is None or other is None else max(rtt_us, other)
    ratios = (srtts[pair] / us for pair, us in shortest.items() if us is not None and pair in srtts)
    return _Known(
        {pair: us for pair, us in rtts.items() if us is not None and pair in srtts},
        {pair: us for pair, us in shortest.items() if us is not None},
        srtts,
        bounded,
        max(ratios, default=None),
    )


def _now(rtt_us: int | None, path: SharerPath, queue_us: float) -> int | None:
    """Return the shortest round trip. A connection older than its uplinks uses the current one less the queue."""
    if rtt_us is None or not path.older or path.srtt_us is None or path.srtt_us <= _explained_us(rtt_us, queue_us):
        return rtt_us
    return max(rtt_us, round(path.srtt_us - queue_us))


def _explained_us(rtt_us: int, queue_us: float) -> float:
    """Return the longest round trip that the queue alone can explain."""
    return QUEUED_FACTOR * (rtt_us + queue_us) + TURNS_US if queue_us else rtt_us


def _without_queue(rtt_us: int | None, before_us: int | None, queue_us: float) -> int | None:
    if rtt_us is None or before_us is None:
        return rtt_us
    return before_us if before_us < rtt_us <= _explained_us(before_us, queue_us) else rtt_us


def _on_their_way(sharer: Sharer, windows: Mapping[Pair, Window], known: _Known) -> tuple[tuple[int, int], ...]:
    alone = sorted(sharer.live, key=lambda one: one.joined)[: sharer.live_connections]
    pairs = ([path.pair for path in live.paths if path.pair in windows] for live in alone)
    longest = (max(each, key=lambda pair: windows[pair].most) for each in pairs if each)
    return tuple((windows[pair].most, known.rtt_us[pair]) for pair in longest)


def _together(sharer: Sharer, windows: Mapping[Pair, Window]) -> tuple[int | None, int | None]:
    """Return the sums of upper and lower limits. A connection has one window for all its subflows."""
    alone = sorted(sharer.live, key=lambda one: one.joined)[: sharer.live_connections]
    each = [
        max((windows[path.pair] for path in live.paths if path.pair in windows), key=lambda one: one.most, default=None)
        for live in alone
    ]
    capped = [one for one in each if one is not None]
    if not capped:
        return None, None
    return sum(one.most for one in capped), sum(one.least for one in capped)


def _reason(sharer: Sharer, part: AirtimeShare, known: _Known, windows: Mapping[Pair, Window]) -> str:
    if not sharer.active:
        return f"idle: it sent less than {BULK_BYTES // 1000} kB within a second"
    if not sharer.live:
        return "no cap: it sends, but no single connection sends enough to be capped"
    if part.wants_bandwidth:
        return "no cap: the bandwidth of its access point is not known yet"
    if not windows:
        return "no cap: its shortest round trip is not known"
    return account(part, known.rtt_us, known.srtt_us, windows)
