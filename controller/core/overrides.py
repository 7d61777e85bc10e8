# SPDX-License-Identifier: Apache-2.0
"""The execution of overrides, which take effect at once."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from controller.core.core import Core, CoreEffect, follow, groups_modified
from controller.features.relays.requests import WishOfRelays
from controller.features.steering.logbook import LogEntry, SwitchOutcome
from controller.features.steering.manager import SteeringManager
from controller.model.config import AUTO, Mode, Site, Terminal
from controller.model.in_force import InForce
from controller.model.overrides import Overrides, in_class, without
from controller.protocol.requests import (
    Impossible,
    OverrideResult,
    named,
    reachable,
    site_of_uplink,
    unknown_class,
)
from controller.protocol.switch_messages import Effect

log = logging.getLogger(__name__)

Placed = tuple[Site, Terminal]


def in_sites_with(terminals: list[Placed], traffic: str) -> list[Placed]:
    """Return the terminals at sites with this class. Raise UnknownClass if there are none."""
    found = [(site, terminal) for site, terminal in terminals if traffic in (each.name for each in site.named)]
    if not found:
        there = dict.fromkeys(each.name for site, _ in terminals for each in site.named)
        raise unknown_class(traffic, dict.fromkeys(site.name for site, _ in terminals), there)
    return found


def set_mode(
    overrides: Overrides, terminals: list[Placed], traffic: str | None, mode: Mode | None
) -> tuple[Overrides, list[tuple[Site, str]]]:
    """Return the new state and a sentence for each terminal.

    Without a class, the mode applies to traffic in no class with its own mode. Without a mode, the configured one
    applies, also after the configuration changes.
    """
    keys = [terminal.name if traffic is None else in_class(terminal.name, traffic) for _, terminal in terminals]
    if mode is None:
        after = replace(overrides, modes=without(overrides.modes, keys))
    else:
        after = replace(overrides, modes={**overrides.modes, **dict.fromkeys(keys, mode)})
    sentences = []
    for key, (site, terminal) in zip(keys, terminals, strict=True):
        if mode is None:
            already = "" if key in overrides.modes else "already "
            sentence = f"{key} {already}follows gateway.yaml: {_in_file(after, terminal, traffic)}"
        else:
            already = "already " if _mode(overrides, terminal, traffic) is mode else ""
            sentence = f"{key} is {already}in mode {mode.value}"
        sentences.append((site, sentence + ("" if traffic is not None else _except(after, site, terminal))))
    return after, sentences


def is_all_off(overrides: Overrides, site: Site, terminal: Terminal) -> bool:
    """Return whether no traffic follows the active uplink."""
    modes = (overrides.mode(terminal), *(overrides.mode_of(terminal, each.name) for each in site.named))
    return all(mode is Mode.OFF for mode in modes)


def _mode(overrides: Overrides, terminal: Terminal, traffic: str | None) -> Mode:
    return overrides.mode(terminal) if traffic is None else overrides.mode_of(terminal, traffic)


def _in_file(overrides: Overrides, terminal: Terminal, traffic: str | None) -> str:
    follows = traffic is not None and traffic not in dict(terminal.modes)
    mode = f"mode {_mode(overrides, terminal, traffic).value}"
    return f"{mode}, as {terminal.name} is" if follows else mode


def _except(overrides: Overrides, site: Site, terminal: Terminal) -> str:
    kept = [f"{name} {mode.value}" for name, mode in _own_modes(overrides, site, terminal)]
    return f"; its classes keep modes of their own: {', '.join(kept)}" if kept else ""


def _own_modes(overrides: Overrides, site: Site, terminal: Terminal) -> Iterable[tuple[str, Mode]]:
    for each in site.named:
        if in_class(terminal.name, each.name) in overrides.modes or each.name in dict(terminal.modes):
            yield each.name, overrides.mode_of(terminal, each.name)


@dataclass(frozen=True, slots=True)
class Done:
    overrides: Overrides
    sentences: list[tuple[Placed, str]]
    entries: list[LogEntry]
    moved: list[Placed]


def set_active(in_force: InForce, steering: SteeringManager, terminals: list[Placed], uplink: str, now: float) -> Done:
    """Return the new state. Raise Impossible if one of the terminals cannot have the uplink."""
    for site, terminal in terminals:
        reachable(site, terminal, uplink)
        choice = steering.choice(terminal.name, uplink, now)
        if choice is not None and choice.wider is not None:
            raise Impossible(choice.wider)
    sentences, entries = [], []
    for site, terminal in terminals:
        left = in_force.active_uplink(site, terminal)
        sentence = f"{terminal.name} {'already ' if left == uplink else ''}has {uplink} as its active uplink"
        if is_all_off(in_force.overrides, site, terminal):
            sentence += "; in mode off each subnet keeps its own uplink, so this applies once the mode changes"
        sentences.append(((site, terminal), sentence))
        entries.append(steering.wished(terminal.name, uplink, left, now))
    names = {terminal.name for _, terminal in terminals}
    after = replace(in_force.overrides, active={**in_force.overrides.active, **dict.fromkeys(names, uplink)})
    return Done(after, sentences, entries, terminals)


def left_to_policies(in_force: InForce, steering: SteeringManager, terminals: list[Placed], now: float) -> Done:
    moved = [each for each in terminals if each[1].name in in_force.overrides.active]
    names = {terminal.name for _, terminal in moved}
    overrides = replace(in_force.overrides, active=without(in_force.overrides.active, names))
    after = InForce(overrides, replace(in_force.decisions, active=without(in_force.decisions.active, names)))
    lefts = ((terminal.name, in_force.active_uplink(site, terminal)) for site, terminal in moved)
    entries = [steering.released(name, left, after, now) for name, left in lefts]
    chosen = {entry.terminal: entry.uplink for entry in entries}
    sentences = []
    for site, terminal in terminals:
        already = "" if terminal.name in names else "already "
        uplink = chosen.get(terminal.name) or in_force.active_uplink(site, terminal)
        sentence = f"{terminal.name} is {already}left to policies, which chose {uplink}"
        sentences.append(((site, terminal), sentence))
    return Done(overrides, sentences, entries, moved)


# features/relays/requests.py decides what a request about relays changes; of_relays() applies it.


def mode(
    core: Core, name: str, wished: Mode | None, now: float, traffic: str | None = None
) -> tuple[OverrideResult, list[CoreEffect]]:
    """Override the mode of terminals, for one class or for traffic in no class with its own mode."""
    terminals = named(core.config.sites, name)
    if traffic is not None:
        terminals = in_sites_with(terminals, traffic)
    overrides, sentences = set_mode(core.overrides, terminals, traffic, wished)
    return _granted(core, overrides, terminals, tuple(each + _when(core, site) for site, each in sentences), [], now)


def active(core: Core, name: str, uplink: str, now: float) -> tuple[OverrideResult, list[CoreEffect], list[LogEntry]]:
    """Override the active uplink of terminals, or with AUTO leave it to policies.

    The entries show the agents' results once they have answered.
    """
    terminals = named(core.config.sites, name)
    if uplink == AUTO:
        done = left_to_policies(core.in_force, core.steering, terminals, now)
    else:
        done = set_active(core.in_force, core.steering, terminals, uplink, now)
    sentences = tuple(each + _when(core, site) for (site, _), each in done.sentences)
    answer, effects = _granted(core, done.overrides, done.moved, sentences, done.entries, now)
    return answer, effects, done.entries


def of_relays(core: Core, wish: WishOfRelays, now: float) -> tuple[OverrideResult, list[CoreEffect]]:
    """Apply a request about relays. If it raises Impossible or UnknownRelay, nothing changes."""
    overrides, sentences = wish(core.config, core.overrides, core.relays.carries)
    changed = core.override(overrides)
    done = sentences if changed else f"{sentences} (no change)"
    return OverrideResult((done,), changed, 0), list(core.relays.tend(core.in_force, now))


def used_set(
    core: Core, gateway: str, uplink: str, used_bytes: int, now: float
) -> tuple[OverrideResult, list[CoreEffect]]:
    """Set what an uplink has carried of its budget. If UnknownUplink or Impossible is raised, nothing changes."""
    site = site_of_uplink(core.config.sites, gateway, uplink)
    if core.budgets.account(site.home, uplink) is None:
        raise Impossible(f"uplink {uplink} of {gateway} has no budget; gateway.yaml sets one with budget or max_share")
    was_barred = core.budgets.why(site.home, uplink)
    before = core.budgets.correct(site.home, uplink, used_bytes)
    effects = list(core.within_budgets(now))
    core.keep_used(now)
    used = f"{used_bytes / 1e6:.1f} MB" if used_bytes else "nothing"
    sentence = f"{uplink} of {site.home} has used {used} of its budget"
    sentence += f", instead of {before.bytes / 1e6:.1f} MB of {before.period}"
    log.info("the budget was set on request: %s", sentence)
    changed = before.bytes != used_bytes or was_barred is not None
    return OverrideResult((sentence,), changed, groups_modified(effects)), [*effects]


def unconfirmed(core: Core, name: str) -> list[tuple[str, SwitchOutcome]]:
    switches = [core.switches[dpid] for dpid in _gateways(core, named(core.config.sites, name))]
    orders = ((each.site.name, core.steering.logbook.unconfirmed(each.session)) for each in switches)
    return [(gateway, moved) for gateway, moved in orders if moved is not None]


def _granted(
    core: Core,
    overrides: Overrides,
    terminals: list[Placed],
    sentences: tuple[str, ...],
    entries: list[LogEntry],
    now: float,
) -> tuple[OverrideResult, list[CoreEffect]]:
    learned: list[CoreEffect] = list(core.rest(now))  # not part of the override
    changed = core.override(overrides, entries)
    effects: list[Effect] = []
    for dpid in _gateways(core, terminals):
        ours = [entry for entry in entries if core.steering.steered[entry.terminal].site.dpid == dpid]
        effects += follow(core.switches[dpid], ours, core.in_force, core.steering.logbook, now)
    orders = [order for entry in entries for order in core.steering.moved(entry, core.in_force, now)]
    core.steering.touch(terminal.name for _, terminal in terminals)
    tended = list(core.steering.tend(core.in_force, now))
    return OverrideResult(sentences, changed, groups_modified(effects)), [*learned, *effects, *orders, *tended]


def _gateways(core: Core, terminals: list[Placed]) -> Iterable[int]:
    return dict.fromkeys(dpid for site, _ in terminals for dpid in core.config.dpids(site))


def _when(core: Core, site: Site) -> str:
    switch = core.switches[site.dpid]
    if switch.expected() is not None:
        return ""
    comes = "connects" if switch.session is None else "has been read"
    return f"; the setting is saved and applies once gateway {site.name} {comes}"
