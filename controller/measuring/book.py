"""What is known of one road in one direction, by which method, and what came of its last probe.

What is to be had is told by fusing.py. That single packets find less than trains do has one reason: they are told of
several links in a row, and trains of the narrowest alone. Such a figure is kept as what it is, and counts for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from controller.measuring.estimates import Estimated
from controller.measuring.pace import Sent
from controller.policy.fusing import DELIVERED_WITHIN_S, KEPT_S, Figure, Measured, Method, fused
from controller.policy.rates import Alpha, Rate, Unknown


@dataclass(frozen=True, slots=True)
class Page:
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

    def figure(self, delivered: Measured | None, now: float, kept_s: float = KEPT_S) -> Figure | Unknown:
        """`delivered`: the most that some flow got of late."""
        return fused(self.measured if delivered is None else (*self.measured, delivered), now, kept_s)

    def probed_bps(self) -> float | None:
        """However long ago it was: to know how much may be sent. None: no probe has told."""
        if not self.measured:
            return None
        at = max(one.at for one in self.measured)
        figure = fused(self.measured, at)
        return figure.bps if isinstance(figure, Figure) else None


def failed(page: Page, because: str) -> Page:
    return replace(page, error=because, ended=page.ended + 1)


def of_another_way(page: Page) -> Page:
    """What was known of the one before says nothing of it, but for the hosts and for what was sent."""
    return replace(page, measured=(), unknown=())


def written(page: Page, told: Estimated) -> Page:
    found = {Method.ONE_PACKET: told.one_packet, Method.TRAINS: told.trains}
    if _several(told.one_packet, told.trains) or (isinstance(told.trains, Unknown) and _was_several(page)):
        found = {Method.SEVERAL_LINKS: told.one_packet, Method.TRAINS: told.trains}
    rates = tuple(Measured(method, each, told.of.at) for method, each in found.items() if isinstance(each, Rate))
    before = tuple(one for one in page.measured if one.method not in _replaced(rates) and not _over(one, told.trains))
    return replace(
        page,
        alpha=told.alpha if isinstance(told.alpha, Alpha) else page.alpha,
        measured=(*before, *rates),
        unknown=tuple((method, each.because) for method, each in found.items() if isinstance(each, Unknown)),
        error=told.of.probed.because or (told.alpha.because if isinstance(told.alpha, Unknown) else ""),
        ended=page.ended + 1,
        sent=told.sent,
        lost=told.lost,
        reordered=told.reordered,
        mtu_bytes=told.mtu_bytes,
    )


def by_trains(page: Page, now: float) -> Figure | None:
    """What is to be had, where trains tell: single packets alone may be told of several links in a row."""
    figure = page.figure(None, now)
    return figure if isinstance(figure, Figure) and Method.TRAINS in figure.methods else None


def most(before: Measured | None, bps: float, now: float) -> Measured:
    """Of what flows got of late: no more than that is sure."""
    if before is not None and now - before.at <= DELIVERED_WITHIN_S and before.rate.bps > bps:
        return before
    return Measured(Method.DELIVERY, Rate(bps, bps, math.inf), now)


def by_clock(page: Page, moment: Callable[[float], float]) -> Page:
    """Its times by another clock, which `moment` tells of this one's."""
    measured = tuple(replace(one, at=moment(one.at)) for one in page.measured)
    spent = replace(page.spent, at=moment(page.spent.at)) if page.spent is not None else None
    return replace(page, measured=measured, spent=spent)


def _several(one_packet: Rate | Unknown, trains: Rate | Unknown) -> bool:
    return isinstance(one_packet, Rate) and isinstance(trains, Rate) and one_packet.most_bps < trains.least_bps


def _was_several(page: Page) -> bool:
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
