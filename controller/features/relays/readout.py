# SPDX-License-Identifier: Apache-2.0
"""The view of relays, built from orders and reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from controller.features.relays.agents import RelayClientAgent
from controller.features.relays.destinations import Destination, RelayContext, by_all
from controller.features.relays.manager import RelayManager
from controller.features.relays.view import (
    ChoiceView,
    DestinationView,
    InterceptionView,
    LegView,
    ReachedView,
    RelayView,
)
from controller.model.known import RelayOverride, Wanted
from controller.model.relaying import Choosing
from controller.policy.paths.relays import RelaySelection


def relays(relaying: RelayManager, wanted: Wanted, now: float) -> tuple[RelayView, ...]:
    return tuple(relay(relaying, name, each, now) for name, each in sorted(wanted.relays.items()))


def relay(relaying: RelayManager, name: str, wished: RelayOverride, now: float) -> RelayView:
    figures, relay_agent = relaying.figures.get(name), relaying.relay_agents.get(name)
    return RelayView(
        name=name,
        address=str(wished.address),
        port=wished.port,
        allowed=tuple(map(str, wished.allowed)),
        congestion=wished.congestion,
        draining=wished.draining,
        heard=relay_agent is not None,
        why_not=_why_not(relaying, name),
        told=figures.told if figures else None,
        age_s=now - figures.at if figures else None,
        reached=tuple(_reached(relaying, name, str(wished.address), now)),
    )


def _why_not(relaying: RelayManager, name: str) -> str | None:
    if name not in relaying.orders.standing:
        return (
            f"no agent has joined as {name}, or it was revoked: `./bicast enroll {name}` prints the line to type there"
        )
    relay_agent = relaying.relay_agents.get(name)
    if relay_agent is None:
        return f"no relay agent enrolled as {name} is connected; the relay may still carry connections"
    return relay_agent.why_not


def _reached(relaying: RelayManager, name: str, address: str, now: float) -> Iterator[ReachedView]:
    for site in relaying.orders.takers:
        gateway = relaying.gateways.get(site)
        one = gateway.relays.get(name) if gateway is not None else None
        if gateway is None or one is None:
            continue
        leg = relaying.seeking.ways.leg(gateway.name, address, now)
        yield ReachedView(
            gateway=gateway.name,
            reason=one.reason or None,
            connections=one.connections,
            opened=one.opened,
            setup_ms=one.setup_us / 1e3 if one.setup_us else None,
            rtt_ms=leg.rtt_ms if leg else None,
            age_s=leg.age_s if leg else None,
        )


def taking(relaying: RelayManager) -> tuple[InterceptionView, ...]:
    return tuple(_taking(relaying, site, relaying.gateways.get(site)) for site in relaying.orders.takers)


def _taking(relaying: RelayManager, site: str, gateway: RelayClientAgent | None) -> InterceptionView:
    written = relaying.orders.takers[site].relaying
    assert written is not None
    nobody = f"no gateway agent enrolled as {site} is connected"
    names = {each.name for each in relaying.orders.takers[site].terminals}
    told = gateway.told.terminals if gateway is not None and gateway.told is not None else ()
    places, chosen = relaying.seeking.counted(site)
    return InterceptionView(
        gateway=site,
        choose=written.choose,
        fallback=written.fallback,
        why_not=gateway.why_not if gateway is not None else nobody,
        terminals=tuple(each for each in told if each.name in names),
        places=places,
        chosen=chosen,
    )


def destination(relaying: RelayManager, scene: RelayContext, place: Destination, now: float) -> DestinationView:
    question = relaying.seeking.question(scene, place, now)
    would = by_all(question) if question is not None else {}
    made = scene.method in would
    choice = _nearest(scene) if scene.method is Choosing.NEAREST else place.choice or would.get(scene.method)
    if choice is not None and not choice.relays and not scene.may_go_direct:
        choice = _instead(choice, scene)
    return DestinationView(
        gateway=scene.site.name,
        prefix=place.prefix,
        address=place.address,
        choice=_choice(scene.method, choice) if choice is not None else None,
        made=made,
        legs=tuple(_legs(relaying, scene, place, now)),
        otherwise=tuple(_choice(method, each) for method, each in would.items() if method is not scene.method),
    )


def _nearest(scene: RelayContext) -> RelaySelection | None:
    reached = [one for name, one in scene.gateway.relays.items() if name in scene.relays and one.setup_us]
    if not reached:
        return None
    best = min(reached, key=lambda one: one.setup_us)
    return RelaySelection(
        (best.name,), f"{best.name} has the shortest set-up time, {best.setup_us / 1e3:.4g} ms for TCP and TLS"
    )


def _instead(direct: RelaySelection, scene: RelayContext) -> RelaySelection | None:
    """Return the choice of a gateway that never sends directly, in place of the direct path."""
    nearest = _nearest(scene)
    forbidden = "`fallback: block` forbids direct connections"
    return nearest and replace(nearest, reason=f"{forbidden}, and {nearest.reason}; {direct.reason}")


def _choice(method: Choosing, one: RelaySelection) -> ChoiceView:
    return ChoiceView(method, one.relays, one.reason, one.predicted_bps, one.direct_bps)


def _legs(relaying: RelayManager, scene: RelayContext, place: Destination, now: float) -> Iterator[LegView]:
    site = scene.site.name
    yield _leg(relaying, site, place.address, place.address, now)
    for name, wished in scene.relays.items():
        yield _leg(relaying, site, str(wished.address), name, now)
        yield _leg(relaying, name, place.address, place.address, now)


def _leg(relaying: RelayManager, start: str, address: str, end: str, now: float) -> LegView:
    known = relaying.seeking.ways.get(start, address)
    leg = known.leg(start, now) if known is not None else None
    if known is None or leg is None:
        reason = known.way.reason if known is not None and known.way.reason else _unwalked(relaying, start)
        return LegView(start, end, None, None, reason, ())
    return LegView(start, end, leg.rtt_ms, leg.age_s, None, tuple(each.address for each in known.way.routers))


def _unwalked(relaying: RelayManager, start: str) -> str:
    host = relaying.gateways.get(start) or relaying.relay_agents.get(start)
    if host is None:
        return f"the agent {start} is not connected"
    return f"the agent {start} cannot: {host.walker.unable}" if host.walker.unable else "no recent round-trip probe"
