# SPDX-License-Identifier: Apache-2.0
"""The choice of the relays for a connection, with its reason.

    sender ── near leg ── relay ── far leg ── receiver      or direct

`ping` and `traceroute` are as printed in paper 001. `predicted` compares the throughput of each way, from measured
loss, bandwidth and the relay's load. `parallel` takes several relays at once. A missing figure of a leg is taken from
the direct way, and a missing figure of the direct way does not limit it: so no relay wins for lack of data. The
random draw is an argument, as time is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from controller.model.text import counted
from controller.policy.bandwidth.rates import rate_text
from controller.policy.paths.leg_throughput import WINDOW_BYTES, Leg, LegRouter, LegThroughput, throughput

WORTH = 1.1  # a change must promise this many times the present throughput
OLD_S = 600.0  # older measurements do not count
BUSY_FROM = 0.8  # a lower load costs no throughput


@dataclass(frozen=True, slots=True)
class Candidate:
    name: str
    near: Leg  # between sender and relay
    far: Leg  # between relay and receiver
    load: float | None = None  # share of the relay in use, from 0 to 1
    overhead_ms: float | None = None  # time that the relay adds to a round trip
    draining: bool = False


def believed(direct: Leg, near: Leg, far: Leg) -> Leg:
    """Return the far leg as far as the gateway's own measurements allow it.

    Only the relay measures the far leg, and a false round trip would attract connections. The gateway measured the
    other two sides of the triangle, so the far leg counts as their difference at least.
    """
    return replace(far, rtt_ms=max(far.rtt_ms, direct.rtt_ms - near.rtt_ms))


@dataclass(frozen=True, slots=True)
class RelaySelection:
    """The chosen relays by name. An empty tuple means direct."""

    relays: tuple[str, ...]
    reason: str
    predicted_bps: float | None = None  # of the choice
    direct_bps: float | None = None


@dataclass(frozen=True, slots=True)
class Filters:
    """Thresholds of paper 001, section 3.2.2, with the values of section 4.3.1."""

    p: float = 0.0
    q: float = 0.5
    x: float = 0.9
    y: float = 1.0


PRINTED = Filters()


def ping(direct: Leg, candidates: Iterable[Candidate]) -> RelaySelection:
    """Choose as the paper's ping rule: the shortest of the longer legs, if shorter than the direct way."""
    shorter = [each for each in _standing(candidates) if _longer_leg(each) < direct.rtt_ms]
    if not shorter:
        return RelaySelection((), f"no relay has both legs shorter than the direct path's {direct.rtt_ms:.4g} ms")
    best = min(shorter, key=_longer_leg)
    legs = f"{best.near.rtt_ms:.4g} and {best.far.rtt_ms:.4g} ms"
    return RelaySelection(
        (best.name,), f"{best.name} splits {direct.rtt_ms:.4g} ms into {legs}, the best of {len(shorter)}"
    )


def traceroute(
    direct: Leg, candidates: Iterable[Candidate], draw: float = 0.0, filters: Filters = PRINTED
) -> RelaySelection:
    """Choose as the paper's traceroute rule: one relay that passes both filters, by `draw` (0 to below 1)."""
    left = passing_relays(direct, _standing(candidates), filters)
    if not left:
        return RelaySelection((), "no relay passes both router filters")
    chosen = left[int(draw * len(left))]
    return RelaySelection(
        (chosen.name,), f"{chosen.name} was drawn from {counted(len(left), 'relays')} that pass the filters"
    )


def passing_relays(direct: Leg, candidates: Iterable[Candidate], filters: Filters = PRINTED) -> list[Candidate]:
    return [
        each
        for each in candidates
        if passes_count_filter(direct, each, filters) and passes_rtt_filter(direct, each, filters)
    ]


def passes_count_filter(direct: Leg, candidate: Candidate, filters: Filters = PRINTED) -> bool:
    """Return whether a relay passes the paper's first filter, by numbers of routers."""
    if len(candidate.far.routers) > len(direct.routers):
        return False
    # Section 4.3.1 of the paper uses the name RN_near for this ratio, and defines it nowhere.
    ratio = shared_ratio(direct, candidate)
    return ratio is not None and filters.p <= ratio <= filters.q


def passes_rtt_filter(direct: Leg, candidate: Candidate, filters: Filters = PRINTED) -> bool:
    """Return whether a relay passes the second filter, by the RTT of R_near, the shared router nearest to the sender.

    With p = 0.0 the first filter passes relays that share no router. They have no R_near, a case that the paper leaves
    open, and fail here. With x = 0.9 the two ways may meet only late.
    """
    ratio = near_ratio(direct, candidate)
    return ratio is not None and filters.x <= ratio <= filters.y


def shared_ratio(direct: Leg, candidate: Candidate) -> float | None:
    """Return RN_same / RN_sd."""
    return len(_shared(direct, candidate)) / len(direct.routers) if direct.routers else None


def near_ratio(direct: Leg, candidate: Candidate) -> float | None:
    """Return the RTT of R_near / RTT_sd."""
    shared = _shared(direct, candidate)
    return shared[0].rtt_ms / direct.rtt_ms if shared and direct.rtt_ms > 0 else None


def predicted(
    direct: Leg, candidates: Iterable[Candidate], present: Sequence[str] = (), window_bytes: int = WINDOW_BYTES
) -> RelaySelection:
    """Keep `present`, the choice in force, unless another is better by the factor WORTH."""
    return parallel(direct, candidates, present=present, window_bytes=window_bytes, most=1)


def parallel(
    direct: Leg,
    candidates: Iterable[Candidate],
    *,
    most: int,
    present: Sequence[str] = (),
    window_bytes: int = WINDOW_BYTES,
    uplink_bps: float | None = None,
) -> RelaySelection:
    """Return up to `most` relays, each of which adds enough throughput.

    All of them share the sender's own uplink, like direct traffic. While its rate is unknown, a second relay is
    predicted to add nothing."""
    direct = replace(direct, bandwidth_bps=_least(direct.bandwidth_bps, uplink_bps))
    alone = throughput(direct, window_bytes)
    if direct.age_s > OLD_S:
        return RelaySelection(
            (), f"the direct path was last measured {direct.age_s:.0f} s ago: too long ago to compare relays with it"
        )
    found = _predictions(direct, candidates, window_bytes)
    best = _best(found, most, uplink_bps)
    kept = {name: found[name] for name in present if name in found}
    if 0 < len(kept) == len(present) <= most and _sum(best, uplink_bps) < WORTH * _sum(kept, uplink_bps):
        best = kept
    bps = _sum(best, uplink_bps)
    worth = alone.bps if best is kept else WORTH * alone.bps
    told_direct = f"direct {rate_text(alone.bps)} ({alone.reason})"
    if not best:
        return RelaySelection((), f"{told_direct}; no relay can be predicted", alone.bps, alone.bps)
    told = " and ".join(f"{name} {rate_text(each.bps)} ({each.reason})" for name, each in best.items())
    if bps < worth:
        return RelaySelection((), f"{told_direct}; no relay gains enough: {told}", alone.bps, alone.bps)
    together = f", together {rate_text(bps)}" if len(best) > 1 else ""
    return RelaySelection(tuple(best), f"{told}{together}; {told_direct}", bps, alone.bps)


def relayed(direct: Leg, candidate: Candidate, window_bytes: int = WINDOW_BYTES) -> LegThroughput | None:
    """Return the throughput of the slower leg, less for a busy relay."""
    legs = (candidate.near, candidate.far)
    if candidate.draining or any(leg.age_s > OLD_S for leg in legs):
        return None
    if candidate.load is None and candidate.overhead_ms is None:
        return None
    by_leg = [throughput(_no_better(leg, direct, candidate.overhead_ms or 0.0), window_bytes) for leg in legs]
    slower = min(by_leg, key=lambda each: each.bps)
    load = candidate.load or 0.0
    if load <= BUSY_FROM:
        return slower
    left = max(0.0, 1 - load) / (1 - BUSY_FROM)
    bps = left * slower.bps if left else 0.0  # also for an infinite throughput
    return LegThroughput(bps, f"{slower.reason}, and {100 * load:.0f} % of the relay is in use")


def _no_better(leg: Leg, direct: Leg, overhead_ms: float) -> Leg:
    """Return the leg with missing figures from the direct way, and with the relay's overhead.

    The overhead is for two passes through the relay. On each leg one pass delays the data, and so the open window.
    """
    return replace(
        leg,
        rtt_ms=leg.rtt_ms + overhead_ms / 2,
        loss=direct.loss if leg.loss is None else leg.loss,
        bandwidth_bps=direct.bandwidth_bps if leg.bandwidth_bps is None else leg.bandwidth_bps,
    )


def _predictions(direct: Leg, candidates: Iterable[Candidate], window_bytes: int) -> dict[str, LegThroughput]:
    told = ((each.name, relayed(direct, each, window_bytes)) for each in candidates)
    return {name: one for name, one in told if one is not None}


def _best(found: dict[str, LegThroughput], most: int, uplink_bps: float | None) -> dict[str, LegThroughput]:
    best: dict[str, LegThroughput] = {}
    for name in sorted(found, key=lambda name: -found[name].bps)[:most]:
        more = {**best, name: found[name]}
        if best and _sum(more, uplink_bps) < WORTH * _sum(best, uplink_bps):
            break
        best = more
    return best


def _sum(those: dict[str, LegThroughput], uplink_bps: float | None) -> float:
    rates = [each.bps for each in those.values()]
    if uplink_bps is None:
        return max(rates, default=0.0)
    return min(sum(rates), uplink_bps)


def _least(one: float | None, other: float | None) -> float | None:
    known = [each for each in (one, other) if each is not None]
    return min(known, default=None)


def _shared(direct: Leg, candidate: Candidate) -> list[LegRouter]:
    """Return routers of the direct way that are also on the far leg, nearest to the sender first."""
    there = {router.name for router in candidate.far.routers}
    return [router for router in direct.routers if router.name in there]


def _standing(candidates: Iterable[Candidate]) -> list[Candidate]:
    return [each for each in candidates if not each.draining]


def _longer_leg(candidate: Candidate) -> float:
    return max(candidate.near.rtt_ms, candidate.far.rtt_ms)
