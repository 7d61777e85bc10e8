# SPDX-License-Identifier: Apache-2.0
"""The estimates of a path in one direction.

Single packets find less than trains if they cross several links in a row: trains measure only the narrowest link. Such
a figure is kept, but does not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from controller.features.probing.probed_paths import SentProbe
from controller.model.redundancy import PacketUplinks
from controller.policy.bandwidth.rates import (
    DELIVERED_WITHIN_S,
    KEPT_S,
    Alpha,
    FusedRate,
    MeasuredRate,
    Method,
    Rate,
    Unknown,
    fused,
)
from controller.policy.paths.flows import ConnectionDelta
from controller.policy.paths.uplinks import AddressOwner, TerminalUplinks, uses_no_uplink
from controller.protocol.reports import ProbeReport, Reported, Subflow, SubflowKey

# probe_evaluation.py runs the estimation outside the core's thread


@dataclass(frozen=True, slots=True)
class Estimate:
    site: str
    uplink: str
    down: bool
    probed: ProbeReport
    alpha: Alpha | None  # None: these hosts are not calibrated
    link_bps: float | None  # the link's rate, if a person gives it to calibrate the hosts
    at: float  # the end of the probe, by the core's clock


@dataclass(frozen=True, slots=True)
class Estimated:
    of: Estimate
    one_packet: Rate | Unknown
    trains: Rate | Unknown
    alpha: Alpha | Unknown | None  # None: not requested
    sent: int = 0  # single packets
    lost: int = 0
    reordered: int = 0
    mtu_bytes: int | None = None  # of the longest that arrived; None: no longer packet was lost


# Delivery: the acknowledged rate counts only while one uplink carries all packets of a terminal. Otherwise the uplink
# of a packet is unknown.

WINDOW_S = 4.0  # acknowledgements come in bursts

WayOf = Callable[[AddressOwner], TerminalUplinks]


@dataclass(frozen=True, slots=True)
class PathDelivery:
    site: str  # of the terminal
    uplink: str
    sent: bool  # by the terminal; False: to it
    bps: float


@dataclass(slots=True)
class _Window:
    begun_at: float
    bytes: int = 0


_Where = tuple[str, str, bool]  # site, uplink, sent


class DeliveryRates:
    def __init__(self) -> None:
        self._rode: dict[int, dict[SubflowKey, _Where]] = {}  # by session: the way of each subflow
        self._windows: dict[tuple[int, _Where], _Window] = {}
        self._reported_at: dict[int, float] = {}

    def closed(self, session: int) -> None:
        self._rode.pop(session, None)
        self._reported_at.pop(session, None)
        self._windows = {at: window for at, window in self._windows.items() if at[0] != session}

    def on_report(
        self,
        connections: Iterable[ConnectionDelta],
        event: Reported,
        at_terminal: bool,
        homes: Mapping[str, AddressOwner],
        way_of: WayOf,
        now: float,
    ) -> Iterator[PathDelivery]:
        before, after = self._rode.get(event.session, {}), dict[SubflowKey, _Where]()
        for flow in (each for connection in connections for each in connection.flows):
            where = _where(flow.subflow, at_terminal, homes, way_of)
            if where is None:
                continue
            after[flow.key] = where
            counts = event.confirmed is None or flow.key in event.confirmed
            if counts and before.get(flow.key) == where:
                begun_at = self._reported_at.get(event.session, now)
                window = self._windows.setdefault((event.session, where), _Window(begun_at))
                window.bytes += flow.acked_bytes
        self._rode[event.session], self._reported_at[event.session] = after, now
        yield from self._over(event.session, now)

    def _over(self, session: int, now: float) -> Iterator[PathDelivery]:
        over = [at for at, window in self._windows.items() if at[0] == session and now - window.begun_at >= WINDOW_S]
        for at in over:
            window, (site, uplink, sent) = self._windows.pop(at), at[1]
            if window.bytes:
                yield PathDelivery(site, uplink, sent, 8 * window.bytes / (now - window.begun_at))


def _where(subflow: Subflow, at_terminal: bool, homes: Mapping[str, AddressOwner], way_of: WayOf) -> _Where | None:
    home = homes.get(subflow.local_address if at_terminal else subflow.remote_address)
    if home is None or (at_terminal and uses_no_uplink(home, subflow.remote_address)):
        return None
    way = way_of(home)
    if way.over is PacketUplinks.ACTIVE:
        return home.site.name, way.active, at_terminal
    if way.over is PacketUplinks.OWN and home.uplink is not None:
        return home.site.name, home.uplink, at_terminal
    return None


@dataclass(frozen=True, slots=True)
class PathEstimate:
    """Immutable estimates of one path and direction. Times are by the core's clock."""

    alpha: Alpha | None = None  # None: these hosts are not calibrated
    measured: tuple[MeasuredRate, ...] = ()  # the last result of each method
    unknown: tuple[tuple[Method, str], ...] = ()  # methods without a result in the last probe, and why
    spent: SentProbe | None = None  # by the last probe
    error: str = ""  # why the last probe was incomplete
    ended: int = 0  # probes in this run
    sent: int = 0  # single packets of the last probe
    lost: int = 0
    reordered: int = 0
    mtu_bytes: int | None = None  # of the longest that arrived

    def figure(self, delivered: MeasuredRate | None, now: float, kept_s: float = KEPT_S) -> FusedRate | Unknown:
        """Return the fused rate. `delivered`: the highest recent rate of a flow."""
        return fused(self.measured if delivered is None else (*self.measured, delivered), now, kept_s)

    def probed_bps(self) -> float | None:
        """Return the last probed rate of any age, to limit the next probe."""
        if not self.measured:
            return None
        at = max(one.at for one in self.measured)
        figure = fused(self.measured, at)
        return figure.bps if isinstance(figure, FusedRate) else None


def failed(page: PathEstimate, reason: str) -> PathEstimate:
    return replace(page, error=reason, ended=page.ended + 1)


def of_another_way(page: PathEstimate) -> PathEstimate:
    """Forget the rates of the previous way. The calibration of hosts and the sent bytes stay."""
    return replace(page, measured=(), unknown=())


def written(page: PathEstimate, estimated: Estimated) -> PathEstimate:
    found = {Method.ONE_PACKET: estimated.one_packet, Method.TRAINS: estimated.trains}
    if _are_several_links(estimated.one_packet, estimated.trains) or (
        isinstance(estimated.trains, Unknown) and _were_several_links(page)
    ):
        found = {Method.SEVERAL_LINKS: estimated.one_packet, Method.TRAINS: estimated.trains}
    rates = tuple(
        MeasuredRate(method, each, estimated.of.at) for method, each in found.items() if isinstance(each, Rate)
    )
    before = tuple(
        one for one in page.measured if one.method not in _replaced(rates) and not _over(one, estimated.trains)
    )
    return replace(
        page,
        alpha=estimated.alpha if isinstance(estimated.alpha, Alpha) else page.alpha,
        measured=(*before, *rates),
        unknown=tuple((method, each.reason) for method, each in found.items() if isinstance(each, Unknown)),
        error=estimated.of.probed.reason or (estimated.alpha.reason if isinstance(estimated.alpha, Unknown) else ""),
        ended=page.ended + 1,
        sent=estimated.sent,
        lost=estimated.lost,
        reordered=estimated.reordered,
        mtu_bytes=estimated.mtu_bytes,
    )


def by_trains(page: PathEstimate, now: float) -> FusedRate | None:
    """Return the rate if it includes trains: single packets alone may measure several links in a row."""
    figure = page.figure(None, now)
    return figure if isinstance(figure, FusedRate) and Method.TRAINS in figure.methods else None


def most(before: MeasuredRate | None, bps: float, now: float) -> MeasuredRate:
    """Return the higher of two recent delivered rates. A delivered rate is a lower bound."""
    if before is not None and now - before.at <= DELIVERED_WITHIN_S and before.rate.bps > bps:
        return before
    return MeasuredRate(Method.DELIVERY, Rate(bps, bps, math.inf), now)


def by_clock(page: PathEstimate, moment: Callable[[float], float]) -> PathEstimate:
    measured = tuple(replace(one, at=moment(one.at)) for one in page.measured)
    spent = replace(page.spent, at=moment(page.spent.at)) if page.spent is not None else None
    return replace(page, measured=measured, spent=spent)


def _are_several_links(one_packet: Rate | Unknown, trains: Rate | Unknown) -> bool:
    return isinstance(one_packet, Rate) and isinstance(trains, Rate) and one_packet.most_bps < trains.least_bps


def _were_several_links(page: PathEstimate) -> bool:
    """Return whether single packets measured several links before. Without trains this is assumed to hold."""
    return any(one.method is Method.SEVERAL_LINKS for one in page.measured)


def _over(before: MeasuredRate, trains: Rate | Unknown) -> bool:
    """Return whether trains find more than an earlier rate by single packets, which is then outdated."""
    return before.method is Method.ONE_PACKET and _are_several_links(before.rate, trains)


def _replaced(rates: tuple[MeasuredRate, ...]) -> set[Method]:
    """Return the methods that new rates replace. A rate by single packets is of one link or several: the newer wins."""
    methods = {one.method for one in rates}
    alone = {Method.ONE_PACKET, Method.SEVERAL_LINKS}
    return methods | (alone if methods & alone else set())
