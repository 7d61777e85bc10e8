"""A terminal's cap as a sentence, with the figures that it was made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.counting import counted
from controller.model import CapRule
from controller.policy.cap_windows import Part, Window, bounds
from controller.policy.flows import Pair

MOST_PLACES = 3  # that a sentence names


def account(part: Part, rtt_us: Mapping[Pair, int], srtt_us: Mapping[Pair, int], windows: Mapping[Pair, Window]) -> str:
    """`windows` has one at least, and the round trips of each."""
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
    return f"{head}: {part.active} active, {', '.join(each)}, {connections}{''.join(_besides(windows, srtt_us))}"


def _ideal(part: Part, other: str | None, rtt_us: int, srtt_us: int, one: Window) -> str:
    bandwidth = f"{part.bandwidth_bps / 1e6:.4g} Mbit/s"
    place = f" to {other}" if other else ""
    if one.released:
        return f"released: {bandwidth} x {srtt_us / 1000:.1f} ms{place} as it is now / {part.active}, {one.most} each"
    fitting = part.fitting(rtt_us)
    parted = f" of which {one.most} each" if part.connections > 1 else ""
    if part.connections == 1 and one.most != max(2, fitting + 1):
        parted = f" left at {one.most}"
    spare_us = part.spare_us(rtt_us)
    way = f"({rtt_us / 1000:.1f} + {spare_us / 1000:g})" if spare_us else f"{rtt_us / 1000:.1f}"
    return f"{bandwidth} x {way} ms{place} / {part.active} = {fitting} + 1 segments{parted}"


def _paper(part: Part, other: str | None, rtt_us: int, srtt_us: int, one: Window) -> str:
    by_number, by_growth = bounds(part, one)
    smaller = by_number.smaller(by_growth)
    place = f" to {other}" if other else ""
    return (
        f"{by_number.most}/{by_number.least} by number, {by_growth.most}/{by_growth.least} by round trips{place} "
        f"{srtt_us / rtt_us:.1f} times the shortest, {rtt_us / 1000:.1f} ms (case {one.case.name}) = "
        f"{smaller.most}/{smaller.least} segments"
    )


def _besides(windows: Mapping[Pair, Window], srtt_us: Mapping[Pair, int]) -> Iterator[str]:
    paces = [one.pace_bps for one in windows.values() if one.pace_bps]
    if paces:
        yield f"; paced at {min(paces) / 1e6:.3g} Mbit/s each, as two segments each are more than its part"
    queued = [srtt_us[pair] for pair, one in windows.items() if one.queues]
    if queued:
        yield f"; no floor while a queue stands (round trip {max(queued) / 1000:.0f} ms)"
