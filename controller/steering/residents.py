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
        self._of_site: dict[str, dict[str, Home]] = {}  # by site: its terminals' addresses
        for address, found in self._homes.items():
            for home in found:
                self._of_site.setdefault(home.site.name, {})[address] = home
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
