# SPDX-License-Identifier: Apache-2.0
"""Requests of people to the core, and the errors that refuse them. They know neither HTTP nor OpenFlow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from controller.model.config import EVERYBODY, Mode, Site, Terminal
from controller.model.known import RelayOverride
from controller.model.traffic import Family

MOST_NAMED = 12  # terminals, in one sentence


@dataclass(frozen=True, slots=True)
class OverrideResult:
    """A wish that was kept. `done` are sentences; one that was kept before changes nothing and says "already". `failed`
    are sentences too: what agents could not do of it, which switches are not known to hold it, and that a restart would
    forget it."""

    done: tuple[str, ...]
    changed: bool
    messages: int  # groups modified
    failed: tuple[str, ...] = ()


class UnknownTerminal(Exception):
    """The sentence names the terminal and those that there are."""


def unknown_terminal(name: str, there: Iterable[str]) -> UnknownTerminal:
    """Where there are too many to be named, those that may have been meant are."""
    known = sorted(there)
    if len(known) <= MOST_NAMED:
        return UnknownTerminal(f"no terminal is named {name!r}; there are: {', '.join(known) or 'none'}")
    near = " or ".join(get_close_matches(name, known, n=2))
    meant = f"did you mean {near}?" if near else "none of them is named nearly so"
    return UnknownTerminal(f"no terminal is named {name!r} of the {len(known)} that there are; {meant}")


def named(sites: Iterable[Site], name: str) -> list[tuple[Site, Terminal]]:
    """A terminal and its site, or all with theirs; or UnknownTerminal."""
    everybody = [(site, terminal) for site in sites for terminal in site.terminals]
    found = [each for each in everybody if name in (each[1].name, EVERYBODY)]
    if not found and name != EVERYBODY:
        raise unknown_terminal(name, (terminal.name for _, terminal in everybody))
    return found


class UnknownRelay(Exception):
    """The sentence names the relay and those that there are."""


class UnknownClass(Exception):
    """The sentence names the class and those that there are."""


def unknown_class(name: str, sites: Iterable[str], there: Iterable[str]) -> UnknownClass:
    known = ", ".join(there)
    at = f"at {' and '.join(list(sites)[:MOST_NAMED])}"
    return UnknownClass(f"no class is named {name!r} {at}; there {f'are: {known}' if known else 'is none'}")


class UnknownUplink(Exception):
    """The sentence names the gateway or the uplink and those that there are."""


def site_of_uplink(sites: Iterable[Site], gateway: str, uplink: str) -> Site:
    """Return the site of this name, which has this uplink. Raise UnknownUplink."""
    there = {site.name: site for site in sites}
    if gateway not in there:
        raise UnknownUplink(f"no gateway is named {gateway!r}; there are: {', '.join(sorted(there)) or 'none'}")
    uplinks = [each.name for each in there[gateway].uplinks]
    if uplink not in uplinks:
        raise UnknownUplink(f"the gateway {gateway} has no uplink named {uplink!r}; it has: {', '.join(uplinks)}")
    return there[gateway]


class Impossible(Exception):
    """The sentence says why this terminal cannot have what was asked."""


class NotAnswered(Exception):
    """The core did not answer in time; whether the wish was kept is not known."""


class Writer(Protocol):
    """Blocks until the core has answered, and a little for switches and agents. A refused wish has changed nothing."""

    def set_mode(self, terminal: str, mode: Mode | None, traffic: str | None = None) -> OverrideResult:
        """No mode: the one of the configuration. No class: of what is in none with a mode of its own."""

    def set_active(self, terminal: str, uplink: str) -> OverrideResult: ...

    def reset_budget(self, gateway: str, uplink: str) -> OverrideResult:
        """Forget what copies have used of an uplink today."""

    def measure(self, uplink: str, site: str | None = None, link_bps: float | None = None) -> OverrideResult:
        """Have a path probed; what comes of it is told by the paths themselves."""

    def set_relay(self, name: str, relay: RelayOverride) -> OverrideResult:
        """Whether it drains stays as it was."""

    def remove_relay(self, name: str) -> OverrideResult: ...

    def drain_relay(self, name: str, draining: bool) -> OverrideResult: ...


def reachable(site: Site, terminal: Terminal, name: str) -> None:
    """Or Impossible."""
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
