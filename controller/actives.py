"""What people wish of active uplinks: that terminals have one, or are left to policies; and how it is said that it was
done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from controller.known import Wanted, without
from controller.modes import Placed, is_all_off
from controller.steering.logbook import By, Entry
from controller.steering.pilot import Pilot
from controller.wishes import Impossible, reachable


@dataclass(frozen=True, slots=True)
class Done:
    wanted: Wanted
    said: list[tuple[Placed, str]]  # a sentence for each terminal
    entries: list[Entry]
    moved: list[Placed]  # whom it concerns


def wished(wanted: Wanted, pilot: Pilot, terminals: list[Placed], uplink: str, now: float) -> Done:
    """Or Impossible, and nothing has changed."""
    for site, terminal in terminals:
        reachable(site, terminal, uplink)
        choice = pilot.choice(terminal.name, uplink, now)
        if choice is not None and choice.wider is not None:
            raise Impossible(choice.wider)
    said, entries = [], []
    for site, terminal in terminals:
        left = wanted.active_uplink(site, terminal)
        sentence = f"{terminal.name} has {uplink} {'already ' if left == uplink else ''}as its active uplink"
        if is_all_off(wanted, site, terminal):
            sentence += "; in mode off each subnet keeps its own, so this counts from the next mode on"
        said.append(((site, terminal), sentence))
        entries.append(pilot.wished(terminal.name, uplink, left, now))
    names = {terminal.name for _, terminal in terminals}
    active = {**wanted.active, **dict.fromkeys(names, uplink)}
    after = replace(wanted, active=active, decided=without(wanted.decided, names))
    return Done(after, said, entries, terminals)


def left_to_policies(wanted: Wanted, pilot: Pilot, terminals: list[Placed], now: float) -> Done:
    moved = [each for each in terminals if each[1].name in wanted.active]
    names = {terminal.name for _, terminal in moved}
    active, decided = without(wanted.active, names), without(wanted.decided, names)
    after = replace(wanted, active=active, decided=decided)
    lefts = ((terminal.name, wanted.active_uplink(site, terminal)) for site, terminal in moved)
    entries = [pilot.released(name, left, after, now) for name, left in lefts]
    by_policy = {entry.terminal: entry.uplink for entry in entries if entry.by is By.POLICY}
    after = replace(after, decided={**decided, **by_policy})
    said = []
    for site, terminal in terminals:
        already, uplink = "" if terminal.name in names else "already ", after.active_uplink(site, terminal)
        sentence = f"{terminal.name} is {already}left to policies, which have it on {uplink}"
        said.append(((site, terminal), sentence))
    return Done(after, said, entries, moved)
