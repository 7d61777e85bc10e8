"""Who holds a terminal's caps: its own agent, which has the sockets, before its gateway's, which has their windows."""

from __future__ import annotations

from dataclasses import dataclass

from controller.air.holder import LEASE_MS, Holder
from controller.model import Site
from controller.reports import CAPS, CLAMPS, NARROWS


@dataclass(frozen=True, slots=True)
class Hand:
    session: int
    agent: str
    capability: str
    instead: str | None = None  # why the terminal's own agent does not


def hand(site: Site, own: Holder | None, gateway: Holder | None, now: float) -> Hand | str:
    """Or why nobody does. `own` speaks for the terminal; `gateway` is the agent at its site."""
    instead = None
    for who, capabilities in ((own, (CAPS, CLAMPS)), (gateway, (NARROWS,))):
        able = next((each for each in capabilities if who is not None and who.can(each)), None)
        if who is None:
            continue
        if able is not None and not who.refused and who.heard_of_late(now) and not who.owes(now):
            return Hand(who.session, who.name, able, instead)
        instead = _cannot(f"its agent {who.name}", who, now, *capabilities)
    whose = "no agent speaks for it" if own is None else _cannot(f"its agent {own.name}", own, now, CAPS, CLAMPS)
    if gateway is None:
        return f"{whose}, and no agent of role gateway that was enrolled as {site.name} is connected"
    there = _cannot(f"the gateway's agent {gateway.name}", gateway, now, NARROWS)
    return f"{whose}, and {there}"


def _cannot(name: str, who: Holder, now: float, *capabilities: str) -> str:
    if not any(map(who.can, capabilities)):
        return f"{name} cannot: {who.why_not(*capabilities)}"
    if who.refused:
        return f"{name} could not: {who.refused}"
    if who.heard_of_late(now):
        return f"{name} has not said for {LEASE_MS // 1000} s whether it does what it was told"
    return f"{name} has not reported for three periods"
