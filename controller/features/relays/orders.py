# SPDX-License-Identifier: Apache-2.0
"""The orders to relays and gateways. They do not depend on connected agents.

A relay without a stream to the controller continues. Its gateways are the first to notice that it is unreachable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import permutations

from controller.model.config import Config, Site, Terminal, locals_of
from controller.model.in_force import InForce
from controller.model.overrides import RelayOverride
from controller.model.relaying import Fallback
from controller.protocol.enrolment import Credential, Vouched
from controller.protocol.orders import (
    Intercept,
    InterceptedTerminal,
    InterceptRelay,
    InterceptUplink,
    LocalAddress,
    PortForward,
    Relay,
    RelayClient,
)
from controller.protocol.reports import Role

NO_RELAY = Relay()
NOTHING = Intercept()

Together = Mapping[str, frozenset[tuple[str, ...]]]  # by site: relays that connections use at once


class RelayOrders:
    """The orders for one set of inputs."""

    def __init__(self, config: Config, in_force: InForce, vouched: Vouched, together: Together) -> None:
        relays, gateways = _of_role(Role.RELAY, vouched), _of_role(Role.GATEWAY, vouched)
        self.standing = {name: each for name, each in in_force.overrides.relays.items() if name in relays}
        self.hosts = {name: (each.address, relays[name].key_sha256) for name, each in self.standing.items()}
        takers = [site for site in config.sites if site.relaying and any(each.relayed for each in site.terminals)]
        self._keys = {name: relays[name].key_sha256 for name in self.standing}
        enrolled = (site.name for site in takers if site.name in gateways)
        guests = tuple(RelayClient(name, gateways[name].key_sha256) for name in enrolled)
        joined = {site: frozenset(self._joined(groups)) for site, groups in together.items()}
        of_all = frozenset[tuple[str, str]]().union(*joined.values())
        self._relays = {
            name: replace(_relay(each, guests), onward=self._onward(name, of_all))
            for name, each in self.standing.items()
        }
        self._takes = {site.name: self._take(site, in_force, joined.get(site.name, frozenset())) for site in takers}
        self.takers = {site.name: site for site in takers}
        self._of = (config, in_force.overrides.relays, in_force.overrides.active, in_force.decisions.active, vouched)
        self._together = together

    def are_of(self, config: Config, in_force: InForce, vouched: Vouched, together: Together) -> bool:
        now = (config, in_force.overrides.relays, in_force.overrides.active, in_force.decisions.active, vouched)
        return together == self._together and all(one is other for one, other in zip(self._of, now, strict=True))

    def _joined(self, groups: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, str]]:
        """Yield the pairs of relays that connections traverse. Both need addresses of one IP version."""
        for group in groups:
            for here, there in permutations((name for name in group if name in self.standing), 2):
                if self.standing[here].address.version == self.standing[there].address.version:
                    yield here, there

    def _onward(self, here: str, joined: Iterable[tuple[str, str]]) -> tuple[PortForward, ...]:
        ways = (self.standing[there] for at, there in sorted(joined) if at == here)
        return tuple(PortForward(each.onward_port, str(each.address), each.port) for each in ways)

    def relay(self, name: str) -> Relay:
        return self._relays.get(name, NO_RELAY)

    def take(self, site: str) -> Intercept:
        return self._takes.get(site, NOTHING)

    def _take(self, site: Site, in_force: InForce, joined: frozenset[tuple[str, str]]) -> Intercept:
        relaying = site.relaying
        assert relaying is not None
        return Intercept(
            port=relaying.port,
            terminals=tuple(_taken(site, each, in_force) for each in site.terminals if each.relayed),
            uplinks=tuple(
                InterceptUplink(each.name, each.port, tuple(map(str, each.gateways))) for each in relaying.uplinks
            ),
            relays=tuple(
                InterceptRelay(
                    name, str(each.address), each.port, each.draining, self._onward(name, joined), self._keys[name]
                )
                for name, each in sorted(self.standing.items())
            ),
            block=relaying.fallback is Fallback.BLOCK,
            excepted=tuple(map(str, relaying.excepted)),
        )


def _of_role(role: Role, vouched: Vouched) -> dict[str, Credential]:
    return {name: one for name, one in vouched.items() if one.role is role}


def _relay(wished: RelayOverride, guests: tuple[RelayClient, ...]) -> Relay:
    return Relay(wished.port, guests, wished.allowed, wished.congestion, wished.draining)


def _taken(site: Site, terminal: Terminal, in_force: InForce) -> InterceptedTerminal:
    places = locals_of(site, terminal, in_force.active_uplink(site, terminal))
    return InterceptedTerminal(
        terminal.name,
        _texts(at.address for at in terminal.own),
        tuple(LocalAddress(uplink, _texts(addresses)) for uplink, addresses in places),
    )


def _texts(addresses: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(str, addresses))
