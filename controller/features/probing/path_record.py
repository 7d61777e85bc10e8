# SPDX-License-Identifier: Apache-2.0
"""The estimates of a path in one direction: by single packets, by trains, and by what flows deliver.

policy/bandwidth/rates.py fuses them. Single packets find less than trains for one reason: they measure several links in
a row, and trains only the narrowest. Such a figure is kept, and does not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from controller.features.probing.probed_paths import Sent
from controller.policy.bandwidth.rates import (
    DELIVERED_WITHIN_S,
    KEPT_S,
    Alpha,
    FusedRate,
    Measured,
    Method,
    Rate,
    Unknown,
    fused,
)
from controller.policy.paths.uplinks import Home, Leaves, Way, rides_none
from controller.protocol.reports import ProbeReport, Reported, Subflow, SubflowKey

# The estimation of a probe, which probe_evaluation.py does outside the core's thread


@dataclass(frozen=True, slots=True)
class Estimate:
    site: str
    uplink: str
    down: bool
    probed: ProbeReport
    alpha: Alpha | None  # None: nobody has calibrated these hosts
    link_bps: float | None  # the link's rate, where a person says it: calibrate them
    at: float  # when the probe was over, by the core's clock


@dataclass(frozen=True, slots=True)
class Estimated:
    of: Estimate
    one_packet: Rate | Unknown
    trains: Rate | Unknown
    alpha: Alpha | Unknown | None  # None: nobody asked for it
    sent: int = 0  # packets alone
    lost: int = 0
    reordered: int = 0
    mtu_bytes: int | None = None  # of what nothing longer came through; None: the longest did


# Delivery: the rate that senders hear to have arrived, over some seconds
#
# It counts where one uplink alone carries a terminal's packets all the time: otherwise the uplink of a packet is
# unknown.

WINDOW_S = 4.0  # acknowledgements come in bursts

WayOf = Callable[[Home], Way]


@dataclass(frozen=True, slots=True)
class PathDelivery:
    site: str  # of the terminal
    uplink: str
    sent: bool  # by the terminal; else to it
    bps: float


@dataclass(slots=True)
class _Window:
    begun_at: float
    bytes: int = 0


_Where = tuple[str, str, bool]  # site, uplink, sent


class Delivering:
    def __init__(self) -> None:
        self._before: dict[int, dict[SubflowKey, tuple[_Where, int]]] = {}  # by session: bytes of each subflow
        self._windows: dict[tuple[int, _Where], _Window] = {}
        self._told_at: dict[int, float] = {}

    def closed(self, session: int) -> None:
        self._before.pop(session, None)
        self._told_at.pop(session, None)
        self._windows = {at: window for at, window in self._windows.items() if at[0] != session}

    def told(
        self, event: Reported, at_terminal: bool, homes: Mapping[str, Home], way_of: WayOf, now: float
    ) -> Iterator[PathDelivery]:
        before, after = self._before.get(event.session, {}), dict[SubflowKey, tuple[_Where, int]]()
        for subflow in (each for connection in event.connections for each in connection.subflows):
            where = _where(subflow, at_terminal, homes, way_of)
            if where is None:
                continue
            key = subflow.key
            after[key] = (where, subflow.bytes_acked)
            rode, acked = before.get(key, (None, 0))
            counts = event.confirmed is None or key in event.confirmed
            if counts and rode == where and subflow.bytes_acked >= acked:
                begun_at = self._told_at.get(event.session, now)
                window = self._windows.setdefault((event.session, where), _Window(begun_at))
                window.bytes += subflow.bytes_acked - acked
        self._before[event.session], self._told_at[event.session] = after, now
        yield from self._over(event.session, now)

    def _over(self, session: int, now: float) -> Iterator[PathDelivery]:
        over = [at for at, window in self._windows.items() if at[0] == session and now - window.begun_at >= WINDOW_S]
        for at in over:
            window, (site, uplink, sent) = self._windows.pop(at), at[1]
            if window.bytes:
                yield PathDelivery(site, uplink, sent, 8 * window.bytes / (now - window.begun_at))


def _where(subflow: Subflow, at_terminal: bool, homes: Mapping[str, Home], way_of: WayOf) -> _Where | None:
    home = homes.get(subflow.local_address if at_terminal else subflow.remote_address)
    if home is None or (at_terminal and rides_none(home, subflow.remote_address)):
        return None
    way = way_of(home)
    if way.leaves is Leaves.BY_ACTIVE:
        return home.site.name, way.active, at_terminal
    if way.leaves is Leaves.BY_OWN and home.uplink is not None:
        return home.site.name, home.uplink, at_terminal
    return None


@dataclass(frozen=True, slots=True)
class PathEstimate:
    """A new one is made with every probe. Times are of the core's clock."""

    alpha: Alpha | None = None  # None: nobody has calibrated these hosts
    measured: tuple[Measured, ...] = ()  # the last of each method
    unknown: tuple[tuple[Method, str], ...] = ()  # methods that told nothing the last time, and why
    spent: Sent | None = None  # by the last probe
    error: str = ""  # why the last probe was not whole; empty: it was
    ended: int = 0  # probes, by this controller
    sent: int = 0  # packets alone, of the last probe
    lost: int = 0
    reordered: int = 0
    mtu_bytes: int | None = None  # of what nothing longer came through

    def figure(self, delivered: Measured | None, now: float, kept_s: float = KEPT_S) -> FusedRate | Unknown:
        """`delivered`: the most that some flow got of late."""
        return fused(self.measured if delivered is None else (*self.measured, delivered), now, kept_s)

    def probed_bps(self) -> float | None:
        """However long ago it was: to know how much may be sent. None: no probe has told."""
        if not self.measured:
            return None
        at = max(one.at for one in self.measured)
        figure = fused(self.measured, at)
        return figure.bps if isinstance(figure, FusedRate) else None


def failed(page: PathEstimate, reason: str) -> PathEstimate:
    return replace(page, error=reason, ended=page.ended + 1)


def of_another_way(page: PathEstimate) -> PathEstimate:
    """What was known of the one before says nothing of it, but for the hosts and for what was sent."""
    return replace(page, measured=(), unknown=())


def written(page: PathEstimate, told: Estimated) -> PathEstimate:
    found = {Method.ONE_PACKET: told.one_packet, Method.TRAINS: told.trains}
    if _several(told.one_packet, told.trains) or (isinstance(told.trains, Unknown) and _was_several(page)):
        found = {Method.SEVERAL_LINKS: told.one_packet, Method.TRAINS: told.trains}
    rates = tuple(Measured(method, each, told.of.at) for method, each in found.items() if isinstance(each, Rate))
    before = tuple(one for one in page.measured if one.method not in _replaced(rates) and not _over(one, told.trains))
    return replace(
        page,
        alpha=told.alpha if isinstance(told.alpha, Alpha) else page.alpha,
        measured=(*before, *rates),
        unknown=tuple((method, each.reason) for method, each in found.items() if isinstance(each, Unknown)),
        error=told.of.probed.reason or (told.alpha.reason if isinstance(told.alpha, Unknown) else ""),
        ended=page.ended + 1,
        sent=told.sent,
        lost=told.lost,
        reordered=told.reordered,
        mtu_bytes=told.mtu_bytes,
    )


def by_trains(page: PathEstimate, now: float) -> FusedRate | None:
    """What is to be had, where trains tell: single packets alone may be told of several links in a row."""
    figure = page.figure(None, now)
    return figure if isinstance(figure, FusedRate) and Method.TRAINS in figure.methods else None


def most(before: Measured | None, bps: float, now: float) -> Measured:
    """Of what flows got of late: no more than that is sure."""
    if before is not None and now - before.at <= DELIVERED_WITHIN_S and before.rate.bps > bps:
        return before
    return Measured(Method.DELIVERY, Rate(bps, bps, math.inf), now)


def by_clock(page: PathEstimate, moment: Callable[[float], float]) -> PathEstimate:
    """Its times by another clock, which `moment` tells of this one's."""
    measured = tuple(replace(one, at=moment(one.at)) for one in page.measured)
    spent = replace(page.spent, at=moment(page.spent.at)) if page.spent is not None else None
    return replace(page, measured=measured, spent=spent)


def _several(one_packet: Rate | Unknown, trains: Rate | Unknown) -> bool:
    return isinstance(one_packet, Rate) and isinstance(trains, Rate) and one_packet.most_bps < trains.least_bps


def _was_several(page: PathEstimate) -> bool:
    """Where no train tells of it, single packets are taken to be of as many links as before."""
    return any(one.method is Method.SEVERAL_LINKS for one in page.measured)


def _over(before: Measured, trains: Rate | Unknown) -> bool:
    """More comes through than the wire itself carried then."""
    return before.method is Method.ONE_PACKET and _several(before.rate, trains)


def _replaced(rates: tuple[Measured, ...]) -> set[Method]:
    """A single packet's figure is of one link or of several: the newer one tells of which."""
    methods = {one.method for one in rates}
    alone = {Method.ONE_PACKET, Method.SEVERAL_LINKS}
    return methods | (alone if methods & alone else set())
