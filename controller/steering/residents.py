"""Whose address an address is: which terminal a host with an agent is, and whom a server's peers are."""

from __future__ import annotations

from collections.abc import Iterable

from controller.model import Site
from controller.policy.ways import Home, homes


class Residents:
    def __init__(self, sites: tuple[Site, ...]) -> None:
        self._homes = homes(sites)
        self.by_relay: dict[str, dict[str, Home]] = {site.name: {} for site in sites}  # by site: whose its host has
        for address, found in self._homes.items():
            for home in (each for each in found if each.by_relay):
                self.by_relay[home.site.name][address] = home
        self._names = {terminal.name for site in sites for terminal in site.terminals}
        self.alone = {address: found[0] for address, found in self._homes.items() if len(found) == 1}

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
