# SPDX-License-Identifier: Apache-2.0
"""The view of relays, built from orders and reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from controller.features.relays import reports
from controller.features.relays.destinations import Destination, RelayContext, by_all
from controller.features.relays.distances import DistanceProber
from controller.features.relays.manager import RelayManager
from controller.features.relays.view import (
    ChoiceView,
    DestinationView,
    InterceptionView,
    LegView,
    ReachedView,
    RelayView,
)
from controller.model.overrides import Overrides, RelayOverride
from controller.model.relaying import Choosing
from controller.policy.paths.relays import RelaySelection


def relay_views(manager: RelayManager, overrides: Overrides, now: float) -> tuple[RelayView, ...]:
    return tuple(relay_view(manager, name, each, now) for name, each in sorted(overrides.relays.items()))


def relay_view(manager: RelayManager, name: str, wished: RelayOverride, now: float) -> RelayView:
    figures, relay_agent = manager.figures.get(name), manager.relay_agents.get(name)
    return RelayView(
        name=name,
        address=str(wished.address),
        port=wished.port,
        allowed=tuple(map(str, wished.allowed)),
        congestion=wished.congestion,
        draining=wished.draining,
        reporting=relay_agent is not None,
        why_not=_why_not(manager, name),
        report=figures.report if figures else None,
        age_s=now - figures.at if figures else None,
        reached=tuple(_reached(manager, name, str(wished.address), now)),
    )


def _why_not(manager: RelayManager, name: str) -> str | None:
    if name not in manager.orders.standing:
        return (
            f"no agent has joined as {name}, or it was revoked: `./bicast enroll {name}` prints the line to type there"
        )
    relay_agent = manager.relay_agents.get(name)
    if relay_agent is None:
        return f"no relay agent enrolled as {name} is connected; the relay may still carry connections"
    return reports.why_not_relaying(relay_agent.agent)


def _reached(manager: RelayManager, name: str, address: str, now: float) -> Iterator[ReachedView]:
    for site in manager.orders.takers:
        gateway = manager.gateways.get(site)
        one = reports.relays(gateway.agent).get(name) if gateway is not None else None
        if gateway is None or one is None:
            continue
        leg = manager.chooser.ways.leg(gateway.name, address, now)
        yield ReachedView(
            gateway=gateway.name,
            reason=one.reason or None,
            connections=one.connections,
            opened=one.opened,
            setup_ms=one.setup_us / 1e3 if one.setup_us else None,
            rtt_ms=leg.rtt_ms if leg else None,
            age_s=leg.age_s if leg else None,
        )


def interception_views(manager: RelayManager) -> tuple[InterceptionView, ...]:
    return tuple(_interception_view(manager, site, manager.gateways.get(site)) for site in manager.orders.takers)


def _interception_view(manager: RelayManager, site: str, gateway: DistanceProber | None) -> InterceptionView:
    written = manager.orders.takers[site].relaying
    assert written is not None
    nobody = f"no gateway agent enrolled as {site} is connected"
    names = {each.name for each in manager.orders.takers[site].terminals}
    report = reports.interception(gateway.agent) if gateway is not None else None
    places, chosen = manager.chooser.counted(site)
    return InterceptionView(
        gateway=site,
        choose=written.choose,
        fallback=written.fallback,
        why_not=reports.why_not_intercepting(gateway.agent) if gateway is not None else nobody,
        terminals=tuple(each for each in report.terminals if each.name in names) if report is not None else (),
        places=places,
        chosen=chosen,
    )


def destination_view(manager: RelayManager, context: RelayContext, entry: Destination, now: float) -> DestinationView:
    query = manager.chooser.query(context, entry, now)
    would = by_all(query) if query is not None else {}
    made = context.method in would
    choice = _nearest(context) if context.method is Choosing.NEAREST else entry.choice or would.get(context.method)
    if choice is not None and not choice.relays and not context.may_go_direct:
        choice = _instead(choice, context)
    return DestinationView(
        gateway=context.site.name,
        prefix=entry.prefix,
        address=entry.address,
        choice=_choice(context.method, choice) if choice is not None else None,
        made=made,
        legs=tuple(_legs(manager, context, entry, now)),
        otherwise=tuple(_choice(method, each) for method, each in would.items() if method is not context.method),
    )


def _nearest(context: RelayContext) -> RelaySelection | None:
    reached = [
        one for name, one in reports.relays(context.gateway.agent).items() if name in context.relays and one.setup_us
    ]
    if not reached:
        return None
    best = min(reached, key=lambda one: one.setup_us)
    return RelaySelection(
        (best.name,), f"{best.name} has the shortest set-up time, {best.setup_us / 1e3:.4g} ms for TCP and TLS"
    )


def _instead(direct: RelaySelection, context: RelayContext) -> RelaySelection | None:
    nearest = _nearest(context)
    forbidden = "`fallback: block` forbids direct connections"
    return nearest and replace(nearest, reason=f"{forbidden}, and {nearest.reason}; {direct.reason}")


def _choice(method: Choosing, one: RelaySelection) -> ChoiceView:
    return ChoiceView(method, one.relays, one.reason, one.predicted_bps, one.direct_bps)


def _legs(manager: RelayManager, context: RelayContext, entry: Destination, now: float) -> Iterator[LegView]:
    site = context.site.name
    yield _leg(manager, site, entry.address, entry.address, now)
    for name, wished in context.relays.items():
        yield _leg(manager, site, str(wished.address), name, now)
        yield _leg(manager, name, entry.address, entry.address, now)


def _leg(manager: RelayManager, start: str, address: str, end: str, now: float) -> LegView:
    known = manager.chooser.ways.get(start, address)
    leg = known.leg(start, now) if known is not None else None
    if known is None or leg is None:
        reason = known.way.reason if known is not None and known.way.reason else _unmeasured(manager, start)
        return LegView(start, end, None, None, reason, ())
    return LegView(start, end, leg.rtt_ms, leg.age_s, None, tuple(each.address for each in known.way.routers))


def _unmeasured(manager: RelayManager, start: str) -> str:
    prober = manager.gateways.get(start) or manager.relay_agents.get(start)
    if prober is None:
        return f"the agent {start} is not connected"
    return f"the agent {start} cannot: {prober.unable}" if prober.unable else "no recent round-trip probe"
