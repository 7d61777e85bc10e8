# SPDX-License-Identifier: Apache-2.0
"""The ownership of addresses: whose terminal each is, which agent speaks for it, and which connections count."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from controller.model.config import Site
from controller.model.known import RelayOverride
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
# Both addresses and both ports must agree, and the server's address must be the claimant's own. Servers that
# gateway.yaml lists need no confirmation.
#
# A claim is one connection in a server's reports. It counts from its second report on, because a reading is the
# difference of two. If the terminal's own side reports, but not that connection, the claim was a guess. Guesses are
# remembered, so that new ones in each report do not find a connection that exists.

KEPT_S = 3.5  # both ends report each second, but not at the same moment
GUESSES_KEPT_S = 300.0
AT_RANDOM, TIMES = 16, 8  # a server with more unconfirmed claims than these has guessed the confirmed ones, too
MOST_GUESSES = 512  # remembered, of one server about one terminal


def proved_addresses(peer: str, relay: RelayOverride | None) -> frozenset[str]:
    """Return the addresses that are known to be a server's: those it says itself prove nothing.

    `peer` is where its session comes from, as ADDRESS:PORT; `relay` is what a person said of it in `relay add`.
    """
    proved = {str(relay.address)} if relay is not None else set()
    with contextlib.suppress(ValueError):
        address = ip_address(peer.rpartition(":")[0].strip("[]"))
        proved.add(str((isinstance(address, IPv6Address) and address.ipv4_mapped) or address))
    return frozenset(proved)


class Claim:
    """A connection with a terminal that a server reports."""

    __slots__ = ("agrees", "confirmed", "first", "last", "repeated")

    def __init__(self, now: float) -> None:
        self.first = self.last = now
        self.repeated = False  # in more than one report
        self.agrees = False  # with a recent report of the terminal's own side
        self.confirmed = False  # such a report agreed at some time


class OwnSideReports:
    def __init__(self) -> None:
        self._seen: dict[str, dict[SubflowKey, float]] = {}  # by terminal: its end first, and when it was last reported
        self._reported_at: dict[str, float] = {}  # by terminal: the last report of its own side
        self._claims: dict[tuple[str, str], dict[SubflowKey, Claim]] = {}  # by server and terminal, oldest first

    def keep(self, terminals: Iterable[str]) -> None:
        """Forget other terminals."""
        self._seen = {name: self._seen.get(name, {}) for name in terminals}
        self._reported_at = {name: at for name, at in self._reported_at.items() if name in self._seen}
        self._claims = {pair: claims for pair, claims in self._claims.items() if pair[1] in self._seen}

    def report(self, event: Reported, homes: Mapping[str, Home], now: float) -> None:
        """Take a report of the terminals' own side. `homes`: the addresses of those for whom that agent speaks."""
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
            self._reported_at[name] = now

    def confirmed(
        self,
        server: str,
        own: Collection[str],
        connections: Iterable[Connection],
        homes: Mapping[str, Home],
        now: float,
    ) -> tuple[frozenset[SubflowKey], frozenset[str]]:
        """Return the subflows of a server's report that count, and the terminals of which it reports none such.

        `own` are the addresses that are known to be the server's.
        """
        told: dict[str, list[SubflowKey]] = {}
        for subflow in (each for connection in connections for each in connection.subflows):
            home = homes.get(subflow.remote_address)
            if home is not None:
                told.setdefault(home.terminal.name, []).append(subflow.key)
        good: list[SubflowKey] = []
        unconfirmed: set[str] = set()
        for name, keys in told.items():
            counting = self._counting(server, name, [key for key in keys if key[0] in own], now)
            good += counting
            if not counting:
                unconfirmed.add(name)
        return frozenset(good), frozenset(unconfirmed)

    def _counting(self, server: str, terminal: str, keys: Iterable[SubflowKey], now: float) -> list[SubflowKey]:
        claims = self._claims.setdefault((server, terminal), {})
        for key in keys:
            claim = claims.setdefault(key, Claim(now))
            claim.repeated = claim.repeated or claim.first < now
            claim.last = now
        seen = self._seen.get(terminal, {})
        for key, claim in claims.items():
            at = seen.get((*key[2:], *key[:2]))
            claim.agrees = at is not None and now - at <= KEPT_S
            claim.confirmed = claim.confirmed or claim.agrees
        guesses = self._forget(claims, terminal, now)
        counting = [key for key, claim in claims.items() if claim.last == now and claim.repeated and claim.agrees]
        return counting if guesses < AT_RANDOM + TIMES * len(counting) else []

    def _forget(self, claims: dict[SubflowKey, Claim], terminal: str, now: float) -> int:
        """Forget claims that ended, except guesses, which are remembered. Return the number of guesses."""
        reported_at = self._reported_at.get(terminal)
        guesses = 0
        for key, claim in reversed(list(claims.items())):
            guess = claim.repeated and not claim.confirmed
            could_agree = guess and reported_at is not None and reported_at >= claim.first
            kept = could_agree and guesses < MOST_GUESSES and now - claim.last <= GUESSES_KEPT_S
            if claim.last < now and not kept:
                del claims[key]
            else:
                guesses += guess
        return guesses
