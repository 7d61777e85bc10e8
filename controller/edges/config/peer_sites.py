# SPDX-License-Identifier: Apache-2.0
"""Peer sites: one mirrors the other, and knows its terminals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_network

from controller.edges.config.classes import MOST_FLOWS, flows_of, too_many
from controller.edges.config.document import LONGEST_PAIR_PORT, Node
from controller.edges.config.reach import reaching_peer
from controller.edges.config.uplinks import unlimited_at
from controller.model.config import ConfigError, Exit, Mode, Returned, Site, Subnet, Terminal
from controller.model.relaying import HOST_END
from controller.model.traffic import Address, Family, Network


def mirrored(sites: Mapping[str, Site], places: Mapping[str, Node]) -> tuple[Site, ...]:
    mirrored_by = {site.peer_of: name for name, site in sites.items()}
    completed = (_completed(site, sites, places[name]) for name, site in sites.items())
    return tuple(_with_end(site, sites.get(site.peer_of or mirrored_by.get(site.name, ""))) for site in completed)


def _with_end(site: Site, other: Site | None) -> Site:
    if other is None:
        return site
    relaying = site.relaying and replace(site.relaying, excepted=(*site.relaying.excepted, *other.networks))
    return reaching_peer(replace(site, other_end=other.name, relaying=relaying), other)


def _completed(site: Site, sites: Mapping[str, Site], place: Node) -> Site:
    _exit_in_place(site, place)
    if site.peer_of is None:
        return site

    def wrong(expected: str) -> ConfigError:
        return ConfigError(place.file, f"{place.where}.mirrors", site.peer_of, expected)

    other = sites.get(site.peer_of)
    if other is None or other is site:
        others = ", ".join(name for name in sites if name != site.name)
        raise wrong(f"another site of this file{f', such as {others}' if others else ''}")
    if other.peer_of is not None:
        raise wrong(f"a site without `mirrors`: {other.name} mirrors {other.peer_of}")
    twin = next((each for each in sites.values() if each.peer_of == other.name and each is not site), None)
    if twin is not None:
        raise wrong(f"a site that no other site mirrors: {twin.name} already does")
    ours, theirs = ({uplink.name for uplink in each.uplinks} for each in (site, other))
    if ours != theirs:
        raise wrong(
            f"a site with the same uplinks, {', '.join(sorted(ours))}: {other.name} has {', '.join(sorted(theirs))}"
        )
    for uplink in site.uplinks:
        unlimited_at(Node(place.file, f"{place.where}.uplinks.{uplink.name}", None), uplink.limits, other.name)
    returned = tuple(_returned(other))
    for each in returned:
        if any(_overlap(subnet, each.address) for subnet in site.subnets):
            raise wrong(
                f"a site with terminals outside this site's subnets: {each.address} of {each.terminal.name} is inside"
            )
        if not site.uplink(each.uplink).next_hop(Family.of(each.address)):
            raise wrong(f"a site that the uplink {each.uplink} reaches: it has no next hop for {each.address}")
    flows = flows_of(other.named, (each.address for each in returned)) * len(site.inside_ports)
    if flows > MOST_FLOWS:
        raise wrong(too_many(f"the terminals' addresses and this site's {len(site.inside_ports)} inside ports"))
    uplinks = tuple(replace(uplink, limits=other.uplink(uplink.name).limits) for uplink in site.uplinks)
    return replace(site, uplinks=uplinks, returned=returned, named_there=other.named, networks_there=other.networks)


def _overlap(subnet: Subnet, there: Address | Network) -> bool:
    return any(own.version == there.version and own.network.overlaps(ip_network(there)) for own in subnet.gateways)


def _returned(site: Site) -> Iterator[Returned]:
    for terminal in site.terminals:
        for place in terminal.addresses:
            yield Returned(terminal, place.address, site.subnet(place.subnet).uplink or terminal.default_uplink)


def _exit_in_place(site: Site, place: Node) -> None:
    exits = [terminal for terminal in site.terminals if terminal.exit]
    for terminal in exits:
        at = f"{place.where}.terminals.{terminal.name}"
        if site.peer_of is None:
            expected = "false: only a site with `mirrors` can have an exit"
            raise ConfigError(place.file, f"{at}.exit", str(terminal.exit), expected)
        if terminal is not exits[0]:
            expected = f"false: {exits[0].name} is the exit of this site"
            raise ConfigError(place.file, f"{at}.exit", str(terminal.exit), expected)
        families = [Family.of(inside.address) for inside in terminal.addresses]
        if len(set(families)) != len(families):
            found = ", ".join(str(inside.address) for inside in terminal.addresses)
            raise ConfigError(place.file, f"{at}.addresses", found, "one address of each family: this is the exit")
        if terminal.exit is Exit.HOST:
            _check_pair(site, terminal, place.file, f"{at}.addresses")


def _check_pair(site: Site, terminal: Terminal, file: str, where: str) -> None:
    """Raise ConfigError unless the host's exit has a port for itself, whose other end can be named after it."""
    ports = {inside.port for inside in terminal.addresses}
    others = [each.name for each in site.terminals if each is not terminal for at in each.addresses if at.port in ports]
    (first, *more) = sorted(ports)
    if more or others or len(first) > LONGEST_PAIR_PORT or f"{first}{HOST_END}" in site.ports:
        expected = (
            f"one port of at most {LONGEST_PAIR_PORT} characters for the host alone: `bicast bridge` makes it, "
            f"and the host's end is called NAME{HOST_END}"
        )
        raise ConfigError(file, where, ", ".join(sorted(ports)), expected)


def without_copies(sites: Iterable[Site], places: Mapping[str, Node]) -> tuple[Site, ...]:
    """Set mode single for terminals without a `mode` at sites without a mirror.

    Behind a NAT per uplink, servers reset the second copy of a TCP segment.
    """
    return tuple(_without_copies(site, places[site.name]) for site in sites)


def _without_copies(site: Site, place: Node) -> Site:
    if site.other_end is not None:
        return site
    terminals = place.named().get("terminals")
    written = {name: at.named() for name, at in terminals.named().items()} if terminals else {}
    modes = (each.mode if "mode" in written.get(each.name, {}) else Mode.SINGLE for each in site.terminals)
    changed = (replace(each, mode=mode) for each, mode in zip(site.terminals, modes, strict=True))
    return replace(site, terminals=tuple(changed))
