# SPDX-License-Identifier: Apache-2.0
"""The events between two moments, in a person's words.

Devices that meet the same fate at once share one event: when an uplink of 250 devices dies, a person reads one line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from controller.features.steering.logbook import By
from controller.policy.paths.health import UplinkHealth
from controller.readout.snapshot import DecisionView, GatewayView, UplinkView, Watched, WatchedTerminal
from controller.switches.switch import GatewayState

MOST_NAMED = 3  # terminals in a sentence

# Changes of health that say nothing: idle devices come and go between them.
UNREMARKABLE = {
    (UplinkHealth.UNKNOWN, UplinkHealth.GOOD),
    (UplinkHealth.GOOD, UplinkHealth.UNKNOWN),
    (UplinkHealth.LOSSY, UplinkHealth.UNKNOWN),
}
BY = {By.PEOPLE: "a person", By.POLICY: "policies", By.FAILOVER: "an armed failover"}


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the events. Empty: it is not about a gateway, an uplink or a terminal."""

    sentence: str
    gateway: str = ""
    uplinks: tuple[str, ...] = ()
    terminals: tuple[str, ...] = ()


def events(before: Watched, after: Watched) -> Iterator[Event]:
    yield from _config(before, after)
    yield from _gateways(before, after)
    yield from _terminals(before, after)
    yield from _agents(before, after)
    yield from _relays(before, after)


def _config(before: Watched, after: Watched) -> Iterator[Event]:
    if after.config_error is not None and after.config_failures > before.config_failures:
        yield Event(f"gateway.yaml was refused, the last valid one stays: {after.config_error}")
    elif after.config_error is None and after.config_loads > before.config_loads:
        yield Event("gateway.yaml was read again and is in force")


def _gateways(before: Watched, after: Watched) -> Iterator[Event]:
    for old, new in _pairs(_by_name(before.gateways), _by_name(after.gateways)):
        if (old.state is GatewayState.STEADY) is not (new.state is GatewayState.STEADY):
            yield Event(_gateway_sentence(new), new.name)
        for was, one in _pairs(_by_name(old.uplinks), _by_name(new.uplinks)):
            yield from _uplink(new, was, one)


def _gateway_sentence(gateway: GatewayView) -> str:
    if gateway.state is GatewayState.STEADY:
        return f"gateway {gateway.name} is in sync"
    why = f": {gateway.last_error}" if gateway.last_error else ""
    return f"gateway {gateway.name} is {gateway.state}; its installed flows go on{why}"


def _uplink(gateway: GatewayView, old: UplinkView, new: UplinkView) -> Iterator[Event]:
    if old.up is not new.up:
        yield Event(f"port {new.port} of {new.name} is {'up' if new.up else 'down'}", gateway.name, (new.name,))
    if old.tunnel and new.tunnel and old.tunnel.up is not new.tunnel.up:
        state = "is up" if new.tunnel.up else f"is down: {new.tunnel.reason}"
        yield Event(f"the tunnel over {new.name} {state}", gateway.name, (new.name,))
    if new.budget and new.budget.nearly and not (old.budget and old.budget.nearly):
        yield Event(f"the budget of {new.name} is {new.budget.nearly}", gateway.name, (new.name,))
    if new.budget and new.budget.barred and not (old.budget and old.budget.barred):
        yield Event(f"copies over {new.name} stop: {new.budget.barred}", gateway.name, (new.name,))


def _terminals(before: Watched, after: Watched) -> Iterator[Event]:
    alike: dict[tuple[str, tuple[str, ...], str], dict[str, str]] = {}  # reasons by terminal
    for old, new in _pairs(_by_name(before.terminals), _by_name(after.terminals)):
        for uplinks, phrase, reason in (*_health(old, new), *_decision(old, new)):
            alike.setdefault((new.gateway, uplinks, phrase), {})[new.name] = reason
    for (gateway, uplinks, phrase), reasons in alike.items():
        names = ", ".join(reasons) if len(reasons) <= MOST_NAMED else f"{len(reasons)} devices"
        reason = next(iter(reasons.values()))
        yield Event(f"{phrase.format(names)}: {reason}", gateway, uplinks, tuple(reasons))


def _health(old: WatchedTerminal, new: WatchedTerminal) -> Iterator[tuple[tuple[str, ...], str, str]]:
    was = {each.uplink: each.health for each in old.paths}
    for each in new.paths:
        before = was.get(each.uplink, UplinkHealth.UNKNOWN)
        if each.health is before or (before, each.health) in UNREMARKABLE:
            continue
        state = "no longer dead" if each.health is UplinkHealth.UNKNOWN else each.health
        yield (each.uplink,), f"{each.uplink} is {state} for {{}}", each.reason


def _decision(old: WatchedTerminal, new: WatchedTerminal) -> Iterator[tuple[tuple[str, ...], str, str]]:
    made = new.last_decision
    if made is None or (old.last_decision is not None and made.number <= old.last_decision.number):
        return
    yield tuple(dict.fromkeys((made.left, made.uplink))), _move(made), made.reason


def _move(made: DecisionView) -> str:
    if made.copies is not None:
        return "copies begin for {}" if made.copies else f"copies end for {{}}, which uses {made.uplink} alone"
    if made.left == made.uplink:
        return f"{{}} stays on {made.uplink} ({BY[made.by]})"
    return f"{made.uplink} took over from {made.left} for {{}} ({BY[made.by]})"


def _agents(before: Watched, after: Watched) -> Iterator[Event]:
    old, new = _by_name(before.agents), _by_name(after.agents)
    for name, one in new.items():
        if name not in old or old[name].state is not one.state:
            yield Event(f"agent {name} ({one.role}) is {one.state}", terminals=one.terminals)


def _relays(before: Watched, after: Watched) -> Iterator[Event]:
    for old, new in _pairs(_by_name(before.relays), _by_name(after.relays)):
        if (old.why_not is None) is not (new.why_not is None):
            yield Event(f"relay {new.name} is {'up' if new.why_not is None else f'down: {new.why_not}'}")


Named = TypeVar("Named")


def _by_name(views: tuple[Named, ...]) -> dict[str, Named]:
    return {each.name: each for each in views}  # type: ignore[attr-defined]


def _pairs(before: Mapping[str, Named], after: Mapping[str, Named]) -> Iterator[tuple[Named, Named]]:
    return ((before[name], new) for name, new in after.items() if name in before)
