# SPDX-License-Identifier: Apache-2.0
"""The relaying of a site: its ports, and the host's addresses for relayed terminals.

Every uplink's relaying network has one address of each family. Its last bits are the terminal's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address

from controller.edges.config.document import Node, interfaces, is_reserved, pair_port
from controller.model.config import ConfigError, Site, Subnet, Terminal, TerminalAddress
from controller.model.relaying import HOST_MAC, Choosing, Fallback, RelayConfig, RelayingUplink
from controller.model.settings import Settings
from controller.model.traffic import Address, Family, Interface, Network
from controller.model.uplink import Uplink

MOST_EXCEPTED = 64


def relaying_of(place: Node, uplinks: tuple[Uplink, ...]) -> RelayConfig:
    keys = place.mapping("fallback", "choose", "except", required=("port", "uplinks"))
    written = keys["uplinks"].named()
    missing = [uplink.name for uplink in uplinks if uplink.name not in written]
    if missing:
        raise keys["uplinks"].wrong(f"every uplink of the site: {missing[0]} is missing")
    return RelayConfig(
        port=pair_port(keys["port"]),
        uplinks=_uplinks(written, uplinks),
        fallback=keys.maybe("fallback", lambda at: at.choice({each.value: each for each in Fallback}), Fallback.DIRECT),
        choose=keys.maybe("choose", lambda at: at.choice({each.value: each for each in Choosing}), Choosing.NEAREST),
        excepted=keys.maybe("except", _excepted, ()),
    )


def subnets_of(relaying: RelayConfig | None) -> tuple[Subnet, ...]:
    uplinks = relaying.uplinks if relaying else ()
    return tuple(Subnet(uplink.subnet, uplink.gateways, mac=None, uplink=uplink.name) for uplink in uplinks)


def spoken_for(terminals: tuple[Terminal, ...], relaying: RelayConfig | None, place: Node) -> tuple[Terminal, ...]:
    taken: dict[Address, str] = {}
    for uplink in relaying.uplinks if relaying else ():
        at = f"{place.where}.relaying.uplinks.{uplink.name}.gateways"
        taken |= {own.ip: f"the gateway's at {at}" for own in uplink.gateways}
    found = []
    for terminal in terminals:
        at = f"{place.where}.terminals.{terminal.name}"
        if terminal.relayed and relaying is None:
            raise ConfigError(place.file, f"{at}.relayed", "true", f"`relaying` at {place.where}, or false")
        added = tuple(_locals(terminal, relaying, taken, place.file, at)) if relaying and terminal.relayed else ()
        taken |= {each.host: f"{terminal.name}'s at {at}.addresses" for each in added if each.host}
        found.append(replace(terminal, addresses=(*terminal.addresses, *added)))
    return tuple(found)


def can_be_relayed(sites: Sequence[Site], places: Mapping[str, Node], settings: Settings) -> None:
    for site in (each for each in sites if each.relaying):
        place = Node(places[site.name].file, f"{places[site.name].where}.relaying", "relaying")
        if settings.agents is None:
            raise place.wrong("`controller.agents` in the file: agents intercept and relay connections")
        if site.peer_of is not None:
            raise place.wrong(
                f"`relaying` at {site.peer_of}, which this site mirrors: that site connects to the relays"
            )
    _networks_apart([(site, places[site.name]) for site in sites])


def _networks_apart(sites: Iterable[tuple[Site, Node]]) -> None:
    """Refuse overlapping networks of different sites: a relay's agent reports a terminal by such an address."""
    seen: list[tuple[str, Interface]] = []
    for site, place in sites:
        of_this_site: list[tuple[str, Interface]] = []
        for uplink in site.relaying.uplinks if site.relaying else ():
            where = f"{place.where}.relaying.uplinks.{uplink.name}.gateways"
            for own in uplink.gateways:
                for at, other in seen:
                    if own.version == other.version and own.network.overlaps(other.network):
                        raise ConfigError(
                            place.file, where, str(own), f"a network that does not overlap {other.network} at {at}"
                        )
                of_this_site.append((where, own))
        seen += of_this_site


def _uplinks(written: Mapping[str, Node], uplinks: tuple[Uplink, ...]) -> tuple[RelayingUplink, ...]:
    there = {uplink.name: uplink for uplink in uplinks}
    for name, place in written.items():
        if name not in there:
            raise ConfigError(place.file, place.where, name, f"one of the site's uplinks {', '.join(there)}")
    found: list[RelayingUplink] = []
    for uplink in uplinks:
        place = written[uplink.name]
        keys = place.mapping("bandwidth_bps", required=("port", "gateways"))
        gateways = interfaces(keys["gateways"])
        for own in gateways:
            if not uplink.next_hop(Family.of(own)):
                raise keys["gateways"].wrong(f"no IPv{own.version}: the uplink {uplink.name} has no next hop for it")
        if found and set(map(Family.of, gateways)) != set(map(Family.of, found[0].gateways)):
            raise keys["gateways"].wrong(f"addresses of the same families as at {found[0].name}")
        bandwidth_bps = keys.maybe("bandwidth_bps", Node.bits_per_second, None)
        found.append(RelayingUplink(uplink.name, pair_port(keys["port"]), gateways, bandwidth_bps))
    return tuple(found)


def _excepted(place: Node) -> tuple[Network, ...]:
    networks = tuple(inner.network() for inner in place.each(MOST_EXCEPTED, "networks"))
    if len(set(networks)) != len(networks):
        raise place.wrong("a list of networks, each once")
    return networks


def _locals(
    terminal: Terminal, relaying: RelayConfig, taken: Mapping[Address, str], file: str, where: str
) -> Iterator[TerminalAddress]:
    for uplink in relaying.uplinks:
        for gateway in uplink.gateways:
            hosts = [at.host for at in terminal.addresses if at.host]
            own = next((host for host in hosts if host.version == gateway.version), hosts[0])
            address = ip_address(int(gateway.network.network_address) | int(own) & int(gateway.network.hostmask))
            whose = "reserved for the network" if is_reserved(address, gateway) else taken.get(address)
            if whose:
                said = f"{address} in the relaying network of {uplink.name} ({gateway.network}) is {whose}"
                raise ConfigError(
                    file, f"{where}.addresses", str(own), f"an address with a different host part: {said}"
                )
            yield TerminalAddress(address, uplink.subnet, uplink.port, HOST_MAC, by_relay=True)
