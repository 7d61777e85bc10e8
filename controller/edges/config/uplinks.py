# SPDX-License-Identifier: Apache-2.0
"""The uplinks and access points of a site."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal

from controller.edges.config.document import Mapped, Node, pair_port
from controller.model.config import AccessPoint, CapRule, CapTables, ConfigError, Site
from controller.model.settings import Settings
from controller.model.traffic import Address
from controller.model.uplink import (
    MOST_OF_A_SITE,
    UNITS,
    UNLIMITED,
    Budget,
    Limits,
    Measure,
    Period,
    Tunnel,
    Uplink,
    UplinkKind,
)

# Measurement of uplinks of kind ethernet and of access points
#
# A tunnel's outer addresses are known. Only the builder of an uplink of kind ethernet knows how the host's own packets
# get there. The same holds from terminals to the gateway's host.

OF_MEASURING = ("measure",)
NO_AGENTS = "`controller.agents` in the file: agents do the measuring"
THE_HOSTS = "an address of {}, such as its management port's: a bridge answers for this one, and no agent has it"


def measure_of(keys: Mapped, tunnel: Tunnel | None) -> Measure | None:
    return keys.maybe("measure", lambda at: _measure(at, tunnel), None)


def _measure(place: Node, tunnel: Tunnel | None) -> Measure:
    if tunnel is not None:
        raise place.wrong(
            "no `measure` at an uplink of kind tunnel: it is measured between the tunnel's outer addresses"
        )
    keys = place.mapping(required=("local", "remote"))
    local, remote = keys["local"].address(), keys["remote"].address()
    if local.version != remote.version:
        raise keys["remote"].wrong(f"an IPv{local.version} address, as `local` is")
    if local == remote:
        raise keys["remote"].wrong("the other end's address, which differs from `local`")
    return Measure(local, remote)


def can_be_measured(sites: tuple[Site, ...], places: Mapping[str, Node], settings: Settings) -> None:
    named = {site.name: site for site in sites}
    for site in sites:
        for uplink in site.uplinks:
            if uplink.measure is not None:
                other = named[site.other_end] if site.other_end else None
                at = f"{places[site.name].where}.uplinks.{uplink.name}.measure"
                written = {key: str(getattr(uplink.measure, key)) for key in ("local", "remote")}
                _check_measure(site, uplink, other, settings, Node(places[site.name].file, at, written))
        for one in (each for each in site.access_points if each.measure is not None):
            at = f"{places[site.name].where}.access_points.{one.name}.measure"
            _check_target(site, one, settings, Node(places[site.name].file, at, str(one.measure)))


def _check_target(site: Site, one: AccessPoint, settings: Settings, place: Node) -> None:
    """Raise ConfigError unless agents can probe the `measure` address of an access point."""
    if settings.agents is None:
        raise place.wrong(NO_AGENTS)
    if one.measure in _own_addresses(site):
        raise place.wrong(THE_HOSTS.format("the gateway's host"))
    there = next((each for each in site.uplinks if each.tunnel and each.tunnel.remote == one.measure), None)
    if there is not None:
        raise place.wrong(
            f"an address of the gateway's host: this one belongs to the other end of the tunnel {there.name}"
        )
    if any(one.measure == own.address for terminal in site.terminals for own in terminal.addresses):
        raise place.wrong("an address of the gateway's host: this one is a terminal's")


def _check_measure(site: Site, uplink: Uplink, other: Site | None, settings: Settings, place: Node) -> None:
    if other is None:
        raise place.wrong(
            "no `measure`: no site of this file is at the other end (`mirrors`), so no agent answers there"
        )
    if settings.agents is None:
        raise place.wrong(NO_AGENTS)
    if other.uplink(uplink.name).measure is not None:
        raise place.wrong(f"`measure` at one end only: {other.name} has it too")
    assert uplink.measure is not None
    for key, address, whose in (("local", uplink.measure.local, site), ("remote", uplink.measure.remote, other)):
        if address in (*_own_addresses(site), *_own_addresses(other)):
            expected = THE_HOSTS.format(f"the host of {whose.name}")
            raise ConfigError(place.file, f"{place.where}.{key}", str(address), expected)


def _own_addresses(site: Site) -> list[Address]:
    """Return the addresses for which the bridge answers."""
    between = [own.ip for uplink in site.uplinks for own in uplink.addresses]
    return [*between, *(own.ip for subnet in site.subnets for own in subnet.gateways)]


# Budgets of uplinks that are paid for by the byte

OF_BUDGETS = ("budget", "max_share")
MOST_BYTES = 10**15
A_BUDGET = "bytes per day or month, from 1MB to 1000TB, such as 2GB/month, 0.5GB/day or 100MB/day"
BUDGET = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)(MB|GB|TB)/(day|month)")
SHARE = re.compile(r"0\.[0-9]{1,6}|1(\.0{1,6})?")


def limits_of(keys: Mapped) -> Limits:
    return Limits(
        keys.maybe("budget", _budget, None),
        keys.maybe("max_share", _share, None),
    )


def _budget(place: Node) -> Budget:
    found = BUDGET.fullmatch(place.text(A_BUDGET))
    if not found:
        raise place.wrong(A_BUDGET)
    budget = Budget(round(Decimal(found[1]) * UNITS[found[2]]), Period(found[3]))
    if not UNITS["MB"] <= budget.bytes <= MOST_BYTES:
        raise place.wrong(A_BUDGET)
    return budget


def _share(place: Node) -> float:
    expected = "a share of all sent bytes, above 0 and up to 1, with at most six decimals, such as 0.25"
    text = place.text(expected)
    if not SHARE.fullmatch(text) or not float(text):
        raise place.wrong(expected)
    return float(text)


def unlimited_at(place: Node, limits: Limits, other: str) -> None:
    """Refuse limits at the mirroring site: its uplinks are the other ends of the same links, whose limits apply."""
    if limits != UNLIMITED:
        written, value = ("budget", str(limits.budget)) if limits.budget else ("max_share", limits.max_share)
        found = Node(place.file, f"{place.where}.{written}", value)
        raise found.wrong(f"no such key: {other} has it, and it counts the traffic of both ends")


# Access points

MOST_ACCESS_POINTS = 250


def access_points(place: Node) -> tuple[AccessPoint, ...]:
    return tuple(_access_point(name, inner) for name, inner in place.by_name(MOST_ACCESS_POINTS, "access points"))


def _access_point(name: str, place: Node) -> AccessPoint:
    keys = place.mapping("bandwidth_bps", "rule", "tables", "measure")
    bandwidth_bps = keys.maybe("bandwidth_bps", Node.bits_per_second, None)
    rule = keys.maybe("rule", lambda at: at.choice({rule.value: rule for rule in CapRule}), CapRule.OFF)
    every = {tables.value: tables for tables in CapTables}
    tables = keys.maybe("tables", lambda at: at.choice(every), CapTables.JELLY_BEAN)
    return AccessPoint(name, bandwidth_bps, rule, tables, keys.maybe("measure", Node.address, None))


# Tunnels

OF_TUNNELS = ("device", "remote", "udp_port", "encryption")
ENCRYPTIONS = {"wireguard": False, "none": True}  # by name: whether packets are in clear
WIREGUARD_PORT = 51820  # of the first tunnel
TOLD_APART_BY = 0xFFFFF  # dpid bits that fit into a VNI (24 bits) beside the tunnel's number

Ends = tuple[Site, Site]


def _kind(keys: Mapped) -> UplinkKind:
    kinds = {kind.value: kind for kind in UplinkKind}
    return keys.maybe("kind", lambda at: at.choice(kinds), UplinkKind.ETHERNET)


def nat_device_of(keys: Mapped) -> str | None:
    if _kind(keys) is not UplinkKind.HOST:
        return None
    pair_port(keys["port"])
    device = keys.maybe("device", Node.port_name, None)
    if device is None or device == keys["port"].value:
        expected = "`device`, the interface by which the host leads on: it differs from `port`"
        raise ConfigError(keys.place.file, f"{keys.place.where}.device", device, expected)
    return device


def tunnel_of(keys: Mapped) -> Tunnel | None:
    """Return this end's tunnel, without the values that `tunnelled` adds."""
    kind = _kind(keys)
    if kind is not UplinkKind.TUNNEL:
        for key in OF_TUNNELS if kind is UplinkKind.ETHERNET else OF_TUNNELS[1:]:
            keys.maybe(key, _refuse_tunnel_key, None)
        return None
    remote = keys.maybe("remote", Node.address, None)
    if remote is None:
        keys.maybe("udp_port", _refuse_starting_key, None)
    device = keys.maybe("device", Node.port_name, None)
    if device == keys["port"].value:
        raise keys["port"].wrong("a name that differs from `device`: the site's agent creates a device of this name")
    port = keys.maybe("udp_port", lambda at: at.integer(1, 65534), 0)
    return Tunnel(device, remote, port, vni=0, clear=keys.maybe("encryption", lambda at: at.choice(ENCRYPTIONS), False))


def tunnelled(sites: tuple[Site, ...], places: Mapping[str, Node], settings: Settings) -> tuple[Site, ...]:
    completed = {site.name: site for site in sites}
    vnis: dict[int, str] = {}
    for home, far in _pairs(sites, places, settings):
        for number, name in enumerate(sorted(uplink.name for uplink in home.uplinks if uplink.tunnel)):
            vni = (home.dpid & TOLD_APART_BY) * MOST_OF_A_SITE + number + 1
            if vnis.setdefault(vni, home.name) != home.name:
                expected = f"a dpid whose last five digits differ from those of {vnis[vni]}: they distinguish tunnels"
                raise ConfigError(
                    places[home.name].file, f"{places[home.name].where}.dpid", f"{home.dpid:016x}", expected
                )
            for site in (home, far):
                other = far if site is home else home
                completed[site.name] = _numbered(completed[site.name], name, vni, _starting(site, other, name))
    for site in completed.values():
        _check_ports(site, places[site.name])
    return tuple(completed.values())


def _check_ports(site: Site, place: Node) -> None:
    taken: dict[int, str] = {}
    for uplink in site.uplinks:
        port = uplink.tunnel.udp_port if uplink.tunnel else None
        if port is not None and taken.setdefault(port, uplink.name) != uplink.name:
            expected = f"a UDP port of its own: the tunnel {taken[port]} has this one"
            raise ConfigError(place.file, f"{place.where}.uplinks.{uplink.name}.udp_port", port, expected)


def _pairs(sites: tuple[Site, ...], places: Mapping[str, Node], settings: Settings) -> Iterator[Ends]:
    named = {site.name: site for site in sites}
    for site in sites:
        other = named[site.other_end] if site.other_end else None
        for uplink in site.uplinks:
            at = f"{places[site.name].where}.uplinks.{uplink.name}"
            if uplink.tunnel:
                _check_tunnel(site, uplink, other, settings, places[site.name].file, at)
            if uplink.nat_device and other is not None:
                expected = f"tunnel: a NAT is between this site and {other.name}"
                raise ConfigError(places[site.name].file, f"{at}.kind", "host", expected)
        if site.peer_of is None and other is not None:
            yield site, other


def _check_tunnel(site: Site, uplink: Uplink, other: Site | None, settings: Settings, file: str, at: str) -> None:
    def wrong(key: str, value: object, expected: str) -> ConfigError:
        return ConfigError(file, f"{at}.{key}", value, expected)

    tunnel = uplink.tunnel
    assert tunnel is not None
    if other is None:
        raise wrong("kind", "tunnel", "ethernet: no site of this file is at the other end (`mirrors`)")
    if settings.agents is None:
        raise wrong("kind", "tunnel", "`controller.agents` in the file: the sites' agents create tunnels")
    there = other.uplink(uplink.name).tunnel
    if there is None:
        raise wrong("kind", "tunnel", f"the same kind at both ends: at {other.name} it is ethernet")
    if tunnel.clear is not there.clear:
        raise wrong("encryption", "none" if tunnel.clear else None, f"the same at both ends: {other.name} differs")
    if tunnel.remote is None and there.remote is None:
        raise wrong(
            "remote",
            None,
            f"the outer address of {other.name} here, or this site's outer address there: one end must know the other",
        )
    if tunnel.remote is not None and there.remote is not None:
        raise wrong(
            "remote",
            str(tunnel.remote),
            f"no `remote`: {other.name} already has this site's address, and only one end may have it",
        )
    if tunnel.device in site.ports:
        raise wrong("device", tunnel.device, "a device that has the host's addresses: this one is the bridge's port")
    for network in site.networks:
        if tunnel.remote is not None and tunnel.remote in network:
            raise wrong("remote", str(tunnel.remote), f"an address outside {network}, which belongs to the bridge")


def _starting(site: Site, other: Site, name: str) -> Tunnel:
    """Return the end that has the other's address: its keys apply to both."""
    ends = (each.uplink(name).tunnel for each in (site, other))
    return next(tunnel for tunnel in ends if tunnel is not None and tunnel.remote is not None)


def _numbered(site: Site, name: str, vni: int, starting: Tunnel) -> Site:
    def completed(uplink: Uplink) -> Uplink:
        if uplink.name != name or uplink.tunnel is None:
            return uplink
        tunnel = replace(uplink.tunnel, vni=vni, udp_port=starting.udp_port)
        return replace(uplink, tunnel=replace(tunnel, udp_port=tunnel.udp_port or WIREGUARD_PORT + tunnel.number))

    return replace(site, uplinks=tuple(map(completed, site.uplinks)))


def _refuse_tunnel_key(place: Node) -> None:
    raise place.wrong("`kind: tunnel` beside it, or no such key: this kind has none")


def _refuse_starting_key(place: Node) -> None:
    raise place.wrong("no such key here: it belongs beside `remote`, at the other end")
