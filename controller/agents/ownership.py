# SPDX-License-Identifier: Apache-2.0
"""The ownership of addresses: whose terminal each is, which agent speaks for it, and which connections count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controller.model.config import Site
from controller.policy.paths.uplinks import Home, homes
from controller.protocol.reports import Connection, Reported, Role, SubflowKey

# Addresses of terminals, of the host of a gateway, and of the peers of a server


class AgentScope(NamedTuple):
    """An agent as it reports connections."""

    sends: bool  # from the addresses in `homes`; else they are its peers'
    homes: Mapping[str, Home]  # by address, those of whom it tells

    @property
    def terminals(self) -> set[str]:
        return {home.terminal.name for home in self.homes.values()}


class AddressIndex:
    def __init__(self, sites: tuple[Site, ...]) -> None:
        self._homes = homes(sites)
        self._by_relay: dict[str, dict[str, Home]] = {}  # by site: whose addresses its host has
        for address, found in self._homes.items():
            for home in (each for each in found if each.by_relay):
                self._by_relay.setdefault(home.site.name, {})[address] = home
        self._of_site: dict[str, dict[str, Home]] = {}  # by site: its terminals' addresses
        for address, found in self._homes.items():
            for home in found:
                self._of_site.setdefault(home.site.name, {})[address] = home
        self._names = {terminal.name for site in sites for terminal in site.terminals}
        self.alone = {address: found[0] for address, found in self._homes.items() if len(found) == 1}

    def speaker(self, role: Role, name: str, itself: Mapping[str, Home]) -> AgentScope | None:
        """`itself`: the terminals that its host is. None: it tells of nobody's connections."""
        match role:
            case Role.TERMINAL:
                return AgentScope(True, itself)
            case Role.GATEWAY:
                carried = self._by_relay.get(name)
                return AgentScope(True, carried) if carried else None
            case Role.RELAY:
                return AgentScope(False, self.alone)

    def own_side(self, role: Role, name: str, itself: Mapping[str, Home]) -> Mapping[str, Home]:
        """The addresses of the terminals that this agent stands for: those of its host, or of its site."""
        return self._of_site.get(name, {}) if role is Role.GATEWAY else itself

    def at_host(self, terminal: str, addresses: Iterable[str]) -> dict[str, Home]:
        """The addresses of this terminal, where the host is that one: it has one of them at least. Others may come up
        later."""
        for address in addresses:
            for home in self._homes.get(address, ()):
                if home.terminal.name == terminal and not home.by_relay:
                    return self._all_of(home)
        return {}

    def why_nobody(self, terminal: str, addresses: tuple[str, ...]) -> str:
        if terminal not in self._names:
            return f"gateway.yaml has no terminal {terminal}, for which it was enrolled"
        return f"none of its addresses ({', '.join(addresses) or 'it has none'}) is of the terminal {terminal}"

    def _all_of(self, one: Home) -> dict[str, Home]:
        addresses = (str(at.address) for at in one.terminal.own)
        return {
            address: next(home for home in self._homes[address] if home.terminal is one.terminal)
            for address in addresses
        }


# Arbitration between several agents that were enrolled for one terminal and have its addresses
#
# An agent speaks only for the terminal that its certificate names. The agent of the terminal's own name wins while it
# is connected, otherwise the first one that came. The others own nothing of that terminal until it leaves.


class OwnershipArbiter:
    """Of agents that are connected."""

    def __init__(self, residents: AddressIndex) -> None:
        self._residents = residents
        self._addresses: dict[str, tuple[str, ...]] = {}  # by agent
        self._bound: dict[str, str] = {}  # by agent: the terminal that it may speak for
        self._homes: dict[str, dict[str, Home]] = {}  # by agent: what it would be, by address
        self._claimants: dict[str, dict[str, None]] = {}  # by terminal: agents, in the order in which they came

    def come(self, agent: str, terminal: str, addresses: tuple[str, ...]) -> set[str]:
        """The agents whose terminals this may change."""
        changed = self.go(agent) | {agent}
        self._addresses[agent], self._bound[agent] = addresses, terminal
        self._homes[agent] = self._residents.at_host(terminal, addresses)
        for terminal in self._wanted(agent):
            claimants = self._claimants.setdefault(terminal, {})
            changed |= claimants.keys()
            claimants[agent] = None
        return changed

    def go(self, agent: str) -> set[str]:
        """The others whose terminals this may change."""
        changed: set[str] = set()
        for terminal in self._wanted(agent):
            claimants = self._claimants[terminal]
            del claimants[agent]
            changed |= claimants.keys()
        self._homes.pop(agent, None)
        self._addresses.pop(agent, None)
        self._bound.pop(agent, None)
        return changed

    def homes(self, agent: str) -> dict[str, Home]:
        """By address, those of the terminals that it speaks for."""
        homes = self._homes[agent]
        return {address: home for address, home in homes.items() if self._speaker(home.terminal.name) == agent}

    def why_not(self, agent: str) -> str | None:
        """Why it speaks for nobody; None: it speaks for its terminal."""
        wanted = self._wanted(agent)
        if not wanted:
            return self._residents.why_nobody(self._bound[agent], self._addresses[agent])
        lost = [self._lost(terminal) for terminal in wanted if self._speaker(terminal) != agent]
        return "; ".join(lost) or None

    def _lost(self, terminal: str) -> str:
        speaker = self._speaker(terminal)
        first = "" if speaker == terminal else ", which came first,"
        return f"it has addresses of the terminal {terminal}, and the agent {speaker}{first} is that terminal"

    def _speaker(self, terminal: str) -> str:
        claimants = self._claimants[terminal]
        return terminal if terminal in claimants else next(iter(claimants))

    def _wanted(self, agent: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(home.terminal.name for home in self._homes.get(agent, {}).values()))


# Confirmation: a server's report of a connection counts if the terminal's agent or its gateway's reports the same one
#
# Both addresses and both ports must agree. Servers that gateway.yaml lists need no confirmation.

KEPT_S = 3.5  # of reports that come each second, and not at the same moments at both ends
AT_RANDOM, TIMES = 16, 8  # a server whose unconfirmed connections are more than these has guessed those that agree


class OwnSideReports:
    def __init__(self) -> None:
        self._seen: dict[str, dict[SubflowKey, float]] = {}  # by terminal: its end first, and when it was last reported

    def keep(self, terminals: Iterable[str]) -> None:
        """Others are forgotten."""
        self._seen = {name: self._seen.get(name, {}) for name in terminals}

    def report(self, event: Reported, homes: Mapping[str, Home], now: float) -> None:
        """A report of the terminals' own side. `homes`: the addresses of those for whom that agent speaks."""
        keys = [subflow.key for connection in event.connections for subflow in connection.subflows]
        if event.capping is not None:
            keys += [
                (one.terminal_address, one.terminal_port, one.other_address, one.other_port)
                for one in event.capping.passing
            ]
        reported: dict[str, dict[SubflowKey, float]] = {}
        for key in keys:
            home = homes.get(key[0])
            if home is not None:
                reported.setdefault(home.terminal.name, {})[key] = now
        for name, there in reported.items():
            lately = ((key, at) for key, at in self._seen.get(name, {}).items() if now - at <= KEPT_S)
            self._seen[name] = {**dict(lately), **there}

    def confirmed(
        self, connections: Iterable[Connection], homes: Mapping[str, Home], now: float
    ) -> tuple[frozenset[SubflowKey], frozenset[str]]:
        """The subflows of a server's report that the terminals' own side reports too, and the terminals of which it
        reports none such."""
        told: Counter[str] = Counter()
        good: dict[str, list[SubflowKey]] = {}
        for subflow in (each for connection in connections for each in connection.subflows):
            home = homes.get(subflow.remote_address)
            if home is None:
                continue
            name = home.terminal.name
            told[name] += 1
            here, there = subflow.key[:2], subflow.key[2:]
            at = self._seen.get(name, {}).get((*there, *here))
            if at is not None and now - at <= KEPT_S:
                good.setdefault(name, []).append(subflow.key)
        good = {name: keys for name, keys in good.items() if told[name] <= AT_RANDOM + TIMES * len(keys)}
        return frozenset(key for keys in good.values() for key in keys), frozenset(told.keys() - good.keys())
