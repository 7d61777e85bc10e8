# SPDX-License-Identifier: Apache-2.0
"""Requests of people to the core, and the errors that refuse them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from controller.model.config import EVERYBODY, Mode, Site, Terminal
from controller.model.overrides import RelayOverride
from controller.model.traffic import Family

MOST_NAMED = 12  # terminals, in one sentence


@dataclass(frozen=True, slots=True)
class OverrideResult:
    """The result of an accepted override.

    `done` are sentences; a repeated override changes nothing and says "already". `failed` are sentences too: failures
    of agents, switches that have not confirmed it, and a state file that was not written.
    """

    done: tuple[str, ...]
    changed: bool
    messages: int  # groups modified
    failed: tuple[str, ...] = ()


class UnknownTerminal(Exception):
    """An unknown terminal. The message lists the known ones."""


def unknown_terminal(name: str, there: Iterable[str]) -> UnknownTerminal:
    """Return the error. With too many terminals to list, the message names similar ones."""
    known = sorted(there)
    if len(known) <= MOST_NAMED:
        return UnknownTerminal(f"no terminal is named {name!r}; there are: {', '.join(known) or 'none'}")
    near = " or ".join(get_close_matches(name, known, n=2))
    meant = f"did you mean {near}?" if near else "none has a similar name"
    return UnknownTerminal(f"no terminal is named {name!r} among the {len(known)} known; {meant}")


def named(sites: Iterable[Site], name: str) -> list[tuple[Site, Terminal]]:
    """Raise UnknownTerminal for other names than a terminal's or "all"."""
    everybody = [(site, terminal) for site in sites for terminal in site.terminals]
    found = [each for each in everybody if name in (each[1].name, EVERYBODY)]
    if not found and name != EVERYBODY:
        raise unknown_terminal(name, (terminal.name for _, terminal in everybody))
    return found


class UnknownRelay(Exception):
    """An unknown relay. The message lists the known ones."""


class UnknownClass(Exception):
    """An unknown class. The message lists the known ones."""


def unknown_class(name: str, sites: Iterable[str], there: Iterable[str]) -> UnknownClass:
    known = ", ".join(there)
    at = f"at {' and '.join(list(sites)[:MOST_NAMED])}"
    return UnknownClass(f"no class is named {name!r} {at}; there {f'are: {known}' if known else 'is none'}")


class UnknownUplink(Exception):
    """An unknown gateway or uplink. The message lists the known ones."""


def site_of_uplink(sites: Iterable[Site], gateway: str, uplink: str) -> Site:
    """Raise UnknownUplink unless the site has this uplink."""
    there = {site.name: site for site in sites}
    if gateway not in there:
        raise UnknownUplink(f"no gateway is named {gateway!r}; there are: {', '.join(sorted(there)) or 'none'}")
    uplinks = [each.name for each in there[gateway].uplinks]
    if uplink not in uplinks:
        raise UnknownUplink(f"the gateway {gateway} has no uplink named {uplink!r}; it has: {', '.join(uplinks)}")
    return there[gateway]


class Impossible(Exception):
    """A request that cannot be met, with the reason."""


class NotAnswered(Exception):
    """The core did not answer in time. The override may or may not be in force."""


class Writer(Protocol):
    """Requests wait for the core, and briefly for switches and agents. A refused request changes nothing."""

    def set_mode(self, terminal: str, mode: Mode | None, traffic: str | None = None) -> OverrideResult:
        """Set a mode. None: the configured one. Without a class: for traffic in no class with its own mode."""

    def set_active(self, terminal: str, uplink: str) -> OverrideResult: ...

    def set_used(self, gateway: str, uplink: str, used_bytes: int) -> OverrideResult:
        """Set what an uplink has used of its budget."""

    def measure(self, uplink: str, site: str | None = None, link_bps: float | None = None) -> OverrideResult:
        """Probe a path, for the readout of paths."""

    def set_relay(self, name: str, relay: RelayOverride) -> OverrideResult:
        """Add or change a relay. Its draining state stays."""

    def remove_relay(self, name: str) -> OverrideResult: ...

    def drain_relay(self, name: str, draining: bool) -> OverrideResult: ...


def reachable(site: Site, terminal: Terminal, name: str) -> None:
    """Raise Impossible without the uplink, or without its next hop for the terminal's families."""
    uplink = next((each for each in site.uplinks if each.name == name), None)
    if uplink is None:
        there = ", ".join(each.name for each in site.uplinks)
        raise Impossible(f"the site {site.name} has no uplink named {name!r}; it has: {there}")
    missing = {
        family.version
        for family in map(Family.of, (at.address for at in terminal.addresses))
        if not uplink.next_hop(family)
    }
    if missing:
        families = " and ".join(f"IPv{version}" for version in sorted(missing))
        raise Impossible(f"uplink {name} has no next hop for {families}, which {terminal.name} uses")
