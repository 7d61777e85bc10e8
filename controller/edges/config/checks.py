# SPDX-License-Identifier: Apache-2.0
"""The checks and warnings of a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from itertools import combinations, pairwise

from controller.edges.config.document import Node
from controller.model.config import Config, ConfigError, Mode, Site, Subnet
from controller.model.redundancy import BY_MODE
from controller.model.relaying import HOST_END, RELAYING
from controller.model.settings import Endpoint
from controller.model.traffic import Address, Interface
from controller.model.uplink import Uplink


def once(named: Iterable[tuple[str, str]], file: str, expected: str) -> None:
    seen: dict[str, str] = {}
    for where, value in named:
        if value in seen:
            raise ConfigError(file, where, value, f"{expected} (it is also at {seen[value]})")
        seen[value] = where


def listeners_apart(named: Iterable[tuple[str, Endpoint]], file: str) -> None:
    """Raise ConfigError if two listeners share an address and port. A wildcard overlaps all of its family."""
    for (first_at, first), (second_at, second) in combinations(named, 2):
        hosts = ip_address(first.host), ip_address(second.host)
        anywhere = hosts[0].version == hosts[1].version and any(host.is_unspecified for host in hosts)
        if first.port == second.port and (hosts[0] == hosts[1] or anywhere):
            expected = f"another address or port than {first} at {first_at}"
            raise ConfigError(file, second_at, str(second), expected)


def ports_once(site: Site, place: Node) -> None:
    seen: dict[str, str] = {site.bridge: f"{place.where}.bridge"}
    for uplink in site.uplinks:
        where = f"{place.where}.uplinks.{uplink.name}.port"
        if uplink.port in seen:
            raise ConfigError(place.file, where, uplink.port, f"a port that is not also at {seen[uplink.port]}")
        seen[uplink.port] = where
    for at, name, what in (*_of_host_uplinks(site), *_of_relaying(site), *_of_lans(site)):
        where = f"{place.where}.{at}"
        if name in seen:
            raise ConfigError(place.file, where, name, f"{what} that is not also at {seen[name]}")
        seen[name] = where
    for terminal in site.terminals:
        for number, inside in enumerate(terminal.own):
            if inside.port in seen and not site.subnet(inside.subnet).lan:
                where = f"{place.where}.terminals.{terminal.name}.addresses[{number}].port"
                raise ConfigError(
                    place.file, where, inside.port, f"another port: this one is also at {seen[inside.port]}"
                )


Named = tuple[str, str, str]  # place, interface, and what it is


def _of_host_uplinks(site: Site) -> Iterator[Named]:
    for uplink in site.uplinks:
        if uplink.nat_device:
            yield f"uplinks.{uplink.name}.port", f"{uplink.port}{HOST_END}", "an interface"
            yield f"uplinks.{uplink.name}.device", uplink.nat_device, "an interface"


def _of_relaying(site: Site) -> Iterator[Named]:
    if site.relaying:
        ports = {f"uplinks.{uplink.name}.port": uplink.port for uplink in site.relaying.uplinks}
        for at, port in {"port": site.relaying.port, **ports}.items():
            for name in (port, f"{port}{HOST_END}"):
                yield f"relaying.{at}", name, "a port"


def _of_lans(site: Site) -> Iterator[Named]:
    for subnet in site.subnets:
        if subnet.lan:
            yield f"subnets.{subnet.name}.device", subnet.lan.device, "an interface"
            for name in (subnet.lan.port, f"{subnet.lan.port}{HOST_END}"):
                yield f"subnets.{subnet.name}.port", name, "an interface"


def networks_apart(uplinks: tuple[Uplink, ...], subnets: tuple[Subnet, ...], place: Node) -> None:
    networks = [
        *((f"uplinks.{uplink.name}.addresses", own) for uplink in uplinks for own in uplink.addresses),
        *((_gateways_at(subnet), own) for subnet in subnets for own in subnet.gateways),
    ]
    order = sorted(range(len(networks)), key=lambda number: _begin(networks[number][1]))
    for pair in pairwise(order):  # if any two overlap, two neighbours do
        (first_at, first), (second_at, second) = (networks[number] for number in sorted(pair))
        if first.version == second.version and first.network.overlaps(second.network):
            expected = f"a network that does not overlap {first.network} at {place.where}.{first_at}"
            raise ConfigError(place.file, f"{place.where}.{second_at}", str(second), expected)


def _gateways_at(subnet: Subnet) -> str:
    relaying = subnet.name.startswith(RELAYING)
    return f"{f'relaying.uplinks.{subnet.uplink}' if relaying else f'subnets.{subnet.name}'}.gateways"


def _begin(interface: Interface) -> tuple[int, int, int]:
    network = interface.network
    return network.version, int(network.network_address), network.prefixlen


def listeners_off_bridges(named: Iterable[tuple[str, Endpoint]], sites: Iterable[Site], file: str) -> None:
    """Raise ConfigError if a listener has an address of a bridge: its flows take packets to that address."""
    taken: dict[Address, str] = {}
    for site in sites:
        uplinks = ((f"uplinks.{uplink.name}.addresses", own.ip) for uplink in site.uplinks for own in uplink.addresses)
        hosts = {own.ip for subnet in site.subnets if subnet.lan for own in subnet.gateways}
        taken |= {
            address: f"sites.{site.name}.{at}" for at, address in (*uplinks, *_inside(site)) if address not in hosts
        }
    for where, endpoint in named:
        at = taken.get(ip_address(endpoint.host))
        if at is not None:
            why = f"the bridge answers packets to this address, which is also at {at}"
            raise ConfigError(file, where, str(endpoint), f"an address of the controller's own machine: {why}")


def addresses_once(site: Site, place: Node) -> None:
    inside = ((f"{place.where}.{at}", str(address)) for at, address in _inside(site))
    once(inside, place.file, "an address that no other entry has")


def _inside(site: Site) -> Iterator[tuple[str, Address]]:
    for subnet in site.subnets:
        for own in subnet.gateways:
            yield _gateways_at(subnet), own.ip
    for terminal in site.terminals:
        for number, each in enumerate(terminal.own):
            if each.host:
                yield f"terminals.{terminal.name}.addresses[{number}].address", each.host


# Warnings

WITH_COPIES = {Mode.AUTO} | {mode for mode, its in BY_MODE.items() if its.eliminated}


def remarks(config: Config) -> Iterator[str]:
    if config.settings.unproven is not None:
        yield config.settings.unproven
    for site in config.sites:
        joined = {terminal.access_point for terminal in site.terminals}
        for one in site.access_points:
            if one.name not in joined:
                at = f"sites.{site.name}.access_points.{one.name}"
                yield f"{at}: no terminal has `access_point: {one.name}`, so it has no effect"
        for uplink in site.uplinks:
            if uplink.tunnel and uplink.tunnel.clear:
                at = f"sites.{site.name}.uplinks.{uplink.name}"
                yield f"{at}: `encryption: none`: anyone on its path can read, change and send packets"
        if site.relaying and not any(terminal.relayed for terminal in site.terminals):
            yield f"sites.{site.name}.relaying: no terminal has `relayed: true`, so it has no effect"
        if site.other_end is None and len(site.uplinks) > 1:
            yield _of_copies(site)
            if not any(uplink.reach for uplink in site.uplinks):
                yield (
                    f"sites.{site.name}: no address in `reach`: without an agent, terminals stay on "
                    "an uplink that fails beyond its next hop (docs/explanation/steering.md)"
                )


def _of_copies(site: Site) -> str:
    copied = [each.name for each in site.terminals if {each.mode, *dict(each.modes).values()} & WITH_COPIES]
    if not copied:
        return (
            f"sites.{site.name}: nothing is copied, because no peer site mirrors it: terminals without `mode` "
            "are in mode single (docs/how-to/home.md)"
        )
    return (
        f"sites.{site.name}.terminals: packets of {', '.join(copied)} are copied, but no peer site "
        f"mirrors {site.name}: if each uplink has its own NAT, servers and relays reset these connections; leave "
        "`mode` out then (docs/how-to/home.md)"
    )
