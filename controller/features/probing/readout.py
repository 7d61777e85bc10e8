# SPDX-License-Identifier: Apache-2.0
"""The view of measured paths, built from estimates and reports."""

from __future__ import annotations

import math
from collections.abc import Iterator

from controller.features.probing.path_record import PathEstimate
from controller.features.probing.probed_paths import ProbedPath, Unmeasured
from controller.features.probing.view import DirectionView, MethodView, PathHealthView, PathView
from controller.policy.bandwidth.rates import FusedRate, MeasuredRate
from controller.protocol.reports import PathHealth


def path(
    one: ProbedPath, why_not: str | None, health: PathHealth | None, directions: tuple[DirectionView, ...]
) -> PathView:
    return PathView(one.site, one.uplink, one.near, one.far, why_not, _health(health) if health else None, directions)


def unmeasured(one: Unmeasured) -> PathView:
    return PathView(one.site, one.uplink, one.near, one.far, one.reason, None, ())


def direction(
    down: bool,
    page: PathEstimate,
    delivered: MeasuredRate | None,
    kept_s: float,
    running: bool,
    next_at: float | None,
    now: float,
) -> DirectionView:
    found = page.figure(delivered, now, kept_s)
    figure = found if isinstance(found, FusedRate) else None
    return DirectionView(
        direction=named(down),
        bps=figure.bps if figure else None,
        least_bps=figure.least_bps if figure else None,
        most_bps=figure.most_bps if figure and math.isfinite(figure.most_bps) else None,
        age_s=figure.age_s(now) if figure else None,
        methods=tuple(map(str, figure.methods)) if figure else (),
        reason="" if isinstance(found, FusedRate) else found.reason,
        by_method=tuple(_methods(page, now)),
        alpha_ns_per_byte=page.alpha.s_per_byte * 1e9 if page.alpha else None,
        running=running,
        ended=page.ended,
        next_in_s=max(0.0, next_at - now) if next_at is not None else None,
        error=page.error,
        sent=page.sent,
        lost=page.lost,
        reordered=page.reordered,
        mtu_bytes=page.mtu_bytes,
    )


def named(down: bool) -> str:
    return "down" if down else "up"


def _methods(page: PathEstimate, now: float) -> Iterator[MethodView]:
    why = dict(page.unknown)
    for one in page.measured:
        rate = one.rate
        age_s = max(0.0, now - one.at)
        yield MethodView(one.method, rate.bps, rate.least_bps, rate.most_bps, age_s, why.pop(one.method, ""))
    for method, reason in why.items():
        yield MethodView(method, None, None, None, None, reason)


def _health(health: PathHealth) -> PathHealthView:
    return PathHealthView(health.sent, health.lost, health.lost_there, health.lost_back, health.late, health.windows)
