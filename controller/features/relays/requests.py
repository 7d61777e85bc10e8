# SPDX-License-Identifier: Apache-2.0
"""Requests of people about relays: add, drain or remove one, or show how a destination is reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from ipaddress import ip_network

from controller.features.relays import readout
from controller.features.relays.manager import Inquiry, RelayManager
from controller.features.relays.view import DestinationView, TriedView
from controller.model.config import EVERYBODY, Config, Site, Subnet
from controller.model.overrides import MOST_RELAYS, ONWARD_PORTS, PREFIXES, Overrides, RelayOverride, without
from controller.model.relaying import RELAYING
from controller.model.settings import Endpoint
from controller.model.traffic import Address, Family
from controller.protocol.enrolment import CONTROLLER, NAME
from controller.protocol.reports import PendingDestination
from controller.protocol.requests import Impossible, UnknownRelay

Carries = Callable[[str], str]  # the number of a relay's connections, as the end of a sentence
WishOfRelays = Callable[[Config, Overrides, Carries], tuple[Overrides, str]]  # raises Impossible or UnknownRelay


def wished(name: str, relay: RelayOverride) -> WishOfRelays:
    """Return the request to add or change a relay. A relay that is draining stays so."""

    def wish(config: Config, overrides: Overrides, _: Carries) -> tuple[Overrides, str]:
        before = overrides.relays.get(name)
        reason = _name_is_wrong(config, name) or _place_is_wrong(config, relay) or _is_taken(overrides, name, relay)
        if reason is None and before is None and len(overrides.relays) >= MOST_RELAYS:
            reason = f"there are {MOST_RELAYS} relays already, the limit of a gateway: remove one first"
        if reason is not None:
            raise Impossible(reason)
        draining = before is not None and before.draining
        number = before.number if before is not None else _free_number(overrides)
        sentence = f"{name} is now a relay, at {Endpoint(str(relay.address), relay.port)}"
        return _with_relay(overrides, name, replace(relay, draining=draining, number=number)), sentence

    return wish


def unwished(name: str) -> WishOfRelays:
    def wish(_: Config, overrides: Overrides, carries: Carries) -> tuple[Overrides, str]:
        known(overrides, name)
        ending = carries(name)
        ends = f"{ending}, which end now" if ending else ""
        return replace(overrides, relays=without(overrides.relays, [name])), f"{name} is no longer a relay{ends}"

    return wish


def drained(name: str, draining: bool) -> WishOfRelays:
    def wish(_: Config, overrides: Overrides, carries: Carries) -> tuple[Overrides, str]:
        after = _with_relay(overrides, name, replace(known(overrides, name), draining=draining))
        return after, f"{name} {'accepts no new connections' if draining else 'accepts new connections'}{carries(name)}"

    return wish


def _free_number(overrides: Overrides) -> int:
    taken = {each.number for each in overrides.relays.values()}
    return next(number for number in range(MOST_RELAYS) if number not in taken)


def _with_relay(overrides: Overrides, name: str, relay: RelayOverride) -> Overrides:
    return replace(overrides, relays={**overrides.relays, name: relay})


def known(overrides: Overrides, name: str) -> RelayOverride:
    if name in overrides.relays:
        return overrides.relays[name]
    near = get_close_matches(name, overrides.relays, n=1)
    meant = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(overrides.relays)) or 'none'}"
    raise UnknownRelay(f"no relay is named {name!r}; {meant}")


def _name_is_wrong(config: Config, name: str) -> str | None:
    if not NAME.fullmatch(name) or name in (EVERYBODY, CONTROLLER):
        return (
            f"{name[:80]!r} is not a valid name for a relay: expected at most 63 letters a-z, digits and '-', "
            f"not starting with '-', and neither {EVERYBODY!r} nor {CONTROLLER!r}"
        )
    others = {site.name: "site" for site in config.sites}
    others |= {each.name: "terminal" for site in config.sites for each in site.terminals}
    if name in others:
        return f"a {others[name]} of gateway.yaml and its agent are named {name}: give the relay another name"
    return None


def _place_is_wrong(config: Config, relay: RelayOverride) -> str | None:
    if relay.port in ONWARD_PORTS:
        first, last = ONWARD_PORTS[0], ONWARD_PORTS[-1]
        return (
            f"port {relay.port} is reserved for forwarding to other relays: expected a port outside {first} to {last}"
        )
    for network in Family.of(relay.address).never_routed:
        if relay.address in ip_network(network):
            return f"{relay.address} cannot be reached by gateways: no address in {network} can"
    relaying = [site for site in config.sites if site.relaying]
    for site in relaying:
        whose = _owner_of(site, relay.address)
        if whose is not None:
            return f"{relay.address} is {whose} at {site.name}: expected an address of the relay's own host"
    if relaying and not any(
        subnet.gateway(Family.of(relay.address)) for site in relaying for subnet in _relaying_subnets(site)
    ):
        family = f"IPv{relay.address.version}"
        expected = f"an address of the other family, or {family} at `gateways` under relaying.uplinks"
        return f"no gateway reaches {relay.address}: relaying has no {family}; expected {expected}"
    return None


def _owner_of(site: Site, address: Address) -> str | None:
    """Return what has this address at the site, as part of a sentence, or None."""
    for terminal in site.terminals:
        if any(each.address == address for each in terminal.own):
            return f"the terminal {terminal.name}"
    if any(subnet.holds(address) for subnet in _relaying_subnets(site)):
        return "in a network that represents terminals (relaying.uplinks)"
    interfaces = [own for uplink in site.uplinks for own in uplink.addresses]
    interfaces += [own for subnet in site.subnets for own in subnet.gateways]
    return "the bridge" if any(own.ip == address for own in interfaces) else None


def _relaying_subnets(site: Site) -> list[Subnet]:
    return [subnet for subnet in site.subnets if subnet.name.startswith(RELAYING)]


def _is_taken(overrides: Overrides, name: str, relay: RelayOverride) -> str | None:
    for other, each in overrides.relays.items():
        if other != name and (each.address, each.port) == (relay.address, relay.port):
            return (
                f"the relay {other} is at {relay.address}, port {relay.port}: give each relay its own address and port"
            )
    return None


# Agents measure unknown distances

HTTPS = 443


class DestinationQuery:
    """A query about a destination, from one site or from all."""

    def __init__(self, manager: RelayManager, address: Address, site: str | None, anew: bool, now: float) -> None:
        self._manager, self._site = manager, site
        if not address.is_global or address.is_multicast:
            raise Impossible(f"{address} is not an Internet address, and relays reach only those")
        prefix = ip_network((address, PREFIXES[address.version]), strict=False)
        self._destination = PendingDestination(str(prefix), str(address), HTTPS)
        self.inquiry = manager.measure_destination(manager.contexts(site), self._destination, anew, now)

    @property
    def inquiries(self) -> list[Inquiry]:
        return [self.inquiry]

    def result(self, now: float) -> tuple[DestinationView, ...]:
        contexts = self._manager.contexts(self._site)
        found = (
            (context, self._manager.chooser.destination(context.site.name, self._destination.prefix))
            for context in contexts
        )
        return tuple(readout.destination_view(self._manager, context, entry, now) for context, entry in found if entry)


class RelayTrial:
    """A query about a relay, and optionally a destination through it."""

    def __init__(
        self, manager: RelayManager, overrides: Overrides, name: str, address: Address | None, now: float
    ) -> None:
        self._manager, self._name, self._wished = manager, name, known(overrides, name)
        self._query = DestinationQuery(manager, address, None, True, now) if address is not None else None
        self._near = manager.measure_relay(manager.contexts(None), self._wished)

    @property
    def inquiries(self) -> list[Inquiry]:
        return [self._near, *(self._query.inquiries if self._query else ())]

    def result(self, now: float) -> TriedView:
        destinations = self._query.result(now) if self._query else ()
        return TriedView(readout.relay_view(self._manager, self._name, self._wished, now), destinations)
