# SPDX-License-Identifier: Apache-2.0
"""The terminal of each address, the agent that speaks for each terminal, and the connections that count."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from controller.model.config import Site
from controller.model.overrides import RelayOverride
from controller.policy.paths.uplinks import AddressOwner, homes
from controller.protocol.reports import Connection, Reported, Role, SubflowKey


class AgentScope(NamedTuple):
    """The side of the connections that an agent reports."""

    sends: bool  # `homes` are local addresses, otherwise remote ones
    homes: Mapping[str, AddressOwner]  # by address

    @property
    def terminals(self) -> set[str]:
        return {home.terminal.name for home in self.homes.values()}


class AddressIndex:
    def __init__(self, sites: tuple[Site, ...]) -> None:
        self._homes = homes(sites)
        self._by_relay: dict[str, dict[str, AddressOwner]] = {}  # by site: addresses on the gateway's host
        for address, found in self._homes.items():
            for home in (each for each in found if each.by_relay):
                self._by_relay.setdefault(home.site.name, {})[address] = home
        self._of_site: dict[str, dict[str, AddressOwner]] = {}  # by site
        for address, found in self._homes.items():
            for home in found:
                self._of_site.setdefault(home.site.name, {})[address] = home
        self._names = {terminal.name for site in sites for terminal in site.terminals}
        self.alone = {address: found[0] for address, found in self._homes.items() if len(found) == 1}

    def speaker(self, role: Role, name: str, itself: Mapping[str, AddressOwner]) -> AgentScope | None:
        """Return the scope of an agent's reports. `itself` holds the terminals of its own host."""
        match role:
            case Role.TERMINAL:
                return AgentScope(True, itself)
            case Role.GATEWAY:
                carried = self._by_relay.get(name)
                return AgentScope(True, carried) if carried else None
            case Role.RELAY:
                return AgentScope(False, self.alone)

    def own_side(self, role: Role, name: str, itself: Mapping[str, AddressOwner]) -> Mapping[str, AddressOwner]:
        """Return the addresses that an agent is authoritative for: its site's or its host's."""
        return self._of_site.get(name, {}) if role is Role.GATEWAY else itself

    def at_host(self, terminal: str, addresses: Iterable[str]) -> dict[str, AddressOwner]:
        """Return all addresses of the terminal if the host has at least one; the others may come up later."""
        for address in addresses:
            for home in self._homes.get(address, ()):
                if home.terminal.name == terminal and not home.by_relay:
                    return self._all_of(home)
        return {}

    def why_nobody(self, terminal: str, addresses: tuple[str, ...]) -> str:
        if terminal not in self._names:
            return f"it was enrolled for the terminal {terminal}, which gateway.yaml does not have"
        return f"none of its addresses ({', '.join(addresses) or 'it has none'}) belongs to the terminal {terminal}"

    def _all_of(self, one: AddressOwner) -> dict[str, AddressOwner]:
        addresses = (str(at.address) for at in one.terminal.own)
        return {
            address: next(home for home in self._homes[address] if home.terminal is one.terminal)
            for address in addresses
        }


# Arbitration between agents with one terminal's addresses
#
# An agent speaks only for the terminal in its certificate. The agent of that name wins while it is connected, otherwise
# the first.


class OwnershipArbiter:
    """Decides which connected agent speaks for each terminal."""

    def __init__(self, residents: AddressIndex) -> None:
        self._residents = residents
        self._addresses: dict[str, tuple[str, ...]] = {}  # by agent
        self._bound: dict[str, str] = {}  # by agent, from the certificate
        self._homes: dict[str, dict[str, AddressOwner]] = {}  # by agent: the claimed terminal, by address
        self._claimants: dict[str, dict[str, None]] = {}  # by terminal, in the order of connecting

    def come(self, agent: str, terminal: str, addresses: tuple[str, ...]) -> set[str]:
        """Add a connected agent. Return the agents whose terminals may have changed."""
        changed = self.go(agent) | {agent}
        self._addresses[agent], self._bound[agent] = addresses, terminal
        self._homes[agent] = self._residents.at_host(terminal, addresses)
        for terminal in self._wanted(agent):
            claimants = self._claimants.setdefault(terminal, {})
            changed |= claimants.keys()
            claimants[agent] = None
        return changed

    def go(self, agent: str) -> set[str]:
        """Remove an agent, if it is known. Return the other agents whose terminals may have changed."""
        changed: set[str] = set()
        for terminal in self._wanted(agent):
            claimants = self._claimants[terminal]
            del claimants[agent]
            changed |= claimants.keys()
        self._homes.pop(agent, None)
        self._addresses.pop(agent, None)
        self._bound.pop(agent, None)
        return changed

    def homes(self, agent: str) -> dict[str, AddressOwner]:
        """Return the addresses that the agent speaks for."""
        homes = self._homes[agent]
        return {address: home for address, home in homes.items() if self._speaker(home.terminal.name) == agent}

    def why_not(self, agent: str) -> str | None:
        """Return why the agent does not speak for its terminal, or None if it does."""
        wanted = self._wanted(agent)
        if not wanted:
            return self._residents.why_nobody(self._bound[agent], self._addresses[agent])
        lost = [self._lost(terminal) for terminal in wanted if self._speaker(terminal) != agent]
        return "; ".join(lost) or None

    def _lost(self, terminal: str) -> str:
        speaker = self._speaker(terminal)
        first = "" if speaker == terminal else ", which connected first,"
        return (
            f"it has addresses of the terminal {terminal}, and the agent {speaker}{first} already speaks for "
            "that terminal"
        )

    def _speaker(self, terminal: str) -> str:
        claimants = self._claimants[terminal]
        return terminal if terminal in claimants else next(iter(claimants))

    def _wanted(self, agent: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(home.terminal.name for home in self._homes.get(agent, {}).values()))


# Confirmation: a server's report counts if the agent of the terminal or of its gateway reports the same connection
#
# Addresses and ports of both ends must agree, and the server's address must be the claimant's own. Servers in
# gateway.yaml need no confirmation.
#
# A claim counts from its second report on, because a reading is the difference of two. A claim that the terminal's own
# side does not report was a guess. Guesses are counted: a server must not try others until one matches.

KEPT_S = 3.5  # both ends report each second, but not simultaneously
GUESSES_KEPT_S = 300.0
AT_RANDOM, TIMES = 16, 8  # above AT_RANDOM + TIMES * confirmed claims, a server is guessing
MOST_GUESSES = 512  # per server and terminal


def proved_addresses(peer: str, relay: RelayOverride | None) -> frozenset[str]:
    """Return a server's proved addresses. Addresses that it reports itself prove nothing.

    `peer` is the source of its session as ADDRESS:PORT.
    """
    proved = {str(relay.address)} if relay is not None else set()
    with contextlib.suppress(ValueError):
        address = ip_address(peer.rpartition(":")[0].strip("[]"))
        proved.add(str((isinstance(address, IPv6Address) and address.ipv4_mapped) or address))
    return frozenset(proved)


class ConnectionClaim:
    """A server's claim of a connection with a terminal."""

    __slots__ = ("agrees", "confirmed", "first", "last", "repeated")

    def __init__(self, now: float) -> None:
        self.first = self.last = now
        self.repeated = False
        self.agrees = False  # a recent report of the terminal's side has this connection
        self.confirmed = False  # `agrees` was true at least once


class OwnSideReports:
    def __init__(self) -> None:
        self._seen: dict[str, dict[SubflowKey, float]] = {}  # by terminal: when each connection was last reported
        self._reported_at: dict[str, float] = {}  # by terminal
        self._claims: dict[
            tuple[str, str], dict[SubflowKey, ConnectionClaim]
        ] = {}  # by server and terminal, oldest first

    def keep(self, terminals: Iterable[str]) -> None:
        self._seen = {name: self._seen.get(name, {}) for name in terminals}
        self._reported_at = {name: at for name, at in self._reported_at.items() if name in self._seen}
        self._claims = {pair: claims for pair, claims in self._claims.items() if pair[1] in self._seen}

    def report(self, event: Reported, homes: Mapping[str, AddressOwner], now: float) -> None:
        """Record a report of the terminals' own side, with the addresses that its agent speaks for."""
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
        homes: Mapping[str, AddressOwner],
        now: float,
    ) -> tuple[frozenset[SubflowKey], frozenset[str]]:
        """Return the subflows that count, and the terminals without any. `own`: the server's proved addresses."""
        keys_by_terminal: dict[str, list[SubflowKey]] = {}
        for subflow in (each for connection in connections for each in connection.subflows):
            home = homes.get(subflow.remote_address)
            if home is not None:
                keys_by_terminal.setdefault(home.terminal.name, []).append(subflow.key)
        good: list[SubflowKey] = []
        unconfirmed: set[str] = set()
        for name, keys in keys_by_terminal.items():
            counting = self._counting(server, name, [key for key in keys if key[0] in own], now)
            good += counting
            if not counting:
                unconfirmed.add(name)
        return frozenset(good), frozenset(unconfirmed)

    def _counting(self, server: str, terminal: str, keys: Iterable[SubflowKey], now: float) -> list[SubflowKey]:
        claims = self._claims.setdefault((server, terminal), {})
        for key in keys:
            claim = claims.setdefault(key, ConnectionClaim(now))
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

    def _forget(self, claims: dict[SubflowKey, ConnectionClaim], terminal: str, now: float) -> int:
        """Forget claims that ended. Return the number of guesses, which are remembered."""
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
