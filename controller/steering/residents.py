"""Whose address an address is: which terminal a host with an agent is, for whom a gateway's host speaks, and whom a
server's peers are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controller.model import Site
from controller.policy.ways import Home, homes
from controller.reports import Role


class Speaker(NamedTuple):
    """An agent as it reports connections."""

    sends: bool  # from the addresses in `homes`; else they are its peers'
    homes: Mapping[str, Home]  # by address, those of whom it tells

    @property
    def terminals(self) -> set[str]:
        return {home.terminal.name for home in self.homes.values()}


class Residents:
    def __init__(self, sites: tuple[Site, ...]) -> None:
        self._homes = homes(sites)
        self._by_relay: dict[str, dict[str, Home]] = {}  # by site: whose addresses its host has
        for address, found in self._homes.items():
            for home in (each for each in found if each.by_relay):
                self._by_relay.setdefault(home.site.name, {})[address] = home
        self._names = {terminal.name for site in sites for terminal in site.terminals}
        self.alone = {address: found[0] for address, found in self._homes.items() if len(found) == 1}

    def speaker(self, role: Role, name: str, itself: Mapping[str, Home]) -> Speaker | None:
        """`itself`: the terminals that its host is. None: it tells of nobody's connections."""
        match role:
            case Role.TERMINAL:
                return Speaker(True, itself)
            case Role.GATEWAY:
                carried = self._by_relay.get(name)
                return Speaker(True, carried) if carried else None
            case Role.RELAY:
                return Speaker(False, self.alone)

    def at_host(self, name: str, addresses: Iterable[str]) -> dict[str, Home]:
        """By address, those of the terminals that this host is.

        One address is enough: others of the terminal may come up later. A name that a terminal has stands for that
        terminal alone, and an address that is at home in two sites tells nothing without one.
        """
        found: dict[str, Home] = {}
        for address in addresses:
            there = tuple(home for home in self._homes.get(address, ()) if not home.by_relay)
            if name in self._names:
                there = tuple(home for home in there if home.terminal.name == name)
            if len(there) == 1:
                found |= self._all_of(there[0])
        return found

    def why_nobody(self, name: str, addresses: tuple[str, ...]) -> str:
        whose = f"the terminal {name}" if name in self._names else "any terminal"
        return f"none of its addresses ({', '.join(addresses) or 'it has none'}) is of {whose}"

    def _all_of(self, one: Home) -> dict[str, Home]:
        addresses = (str(at.address) for at in one.terminal.own)
        return {
            address: next(home for home in self._homes[address] if home.terminal is one.terminal)
            for address in addresses
        }
