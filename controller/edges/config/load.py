# SPDX-License-Identifier: Apache-2.0
"""The reader of gateway.yaml. A file is taken or refused whole."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from controller.edges.config import document
from controller.edges.config.checks import addresses_once, listeners_off_bridges, networks_apart, once, ports_once
from controller.edges.config.classes import BICAST, classes_of, few_enough, modes_of
from controller.edges.config.document import Mapped, Node, a_host, interfaces, one_a_family, pair_port
from controller.edges.config.peer_sites import mirrored, without_copies
from controller.edges.config.reach import reach_of, reaching
from controller.edges.config.relaying import can_be_relayed, relaying_of, spoken_for, subnets_of
from controller.edges.config.settings import listeners, settings_of
from controller.edges.config.uplinks import (
    OF_BUDGETS,
    OF_MEASURING,
    OF_TUNNELS,
    can_be_measured,
    limits_of,
    measure_of,
    nat_device_of,
    tunnel_of,
    tunnelled,
)
from controller.edges.config.uplinks import access_points as access_points_of
from controller.model.config import (
    AUTO,
    EVERYBODY,
    Config,
    ConfigError,
    CopyWindow,
    Datapath,
    Exit,
    Lan,
    Mode,
    Site,
    Subnet,
    Terminal,
    TerminalAddress,
)
from controller.model.relaying import BRIDGE_MAC, HOST_MAC
from controller.model.traffic import Family, Interface, Protocol, TrafficClass
from controller.model.uplink import NextHop, Uplink
from controller.protocol import enrolment
from controller.protocol.enrolment import CONTROLLER

# The file
#
# The reading thread also handles signals, so it opens regular files only. A half-written file may be valid YAML, so it
# must be unchanged for a moment. Only an atomic rename is fully safe (docs/how-to/home.md).

LARGEST_BYTES = 512 << 10  # YAML takes up to 25 us a byte
UNTOUCHED_S = 0.25
PATIENCE_S = 2.0


def read(path: str) -> bytes:
    try:
        with open(path, "rb", opener=_nonblocking) as file:
            return _read_unchanged(path, file)
    except OSError as error:
        raise ConfigError(path, "", error.strerror, "a file that can be read") from None


def _nonblocking(path: str, flags: int) -> int:
    """Open a file without blocking: a FIFO would wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _read_unchanged(path: str, file: BinaryIO) -> bytes:
    """Read a regular file once nobody has changed it for a moment."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise ConfigError(path, "", "a pipe or a device", "a regular file")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        touched = _size_and_mtime(file)
        if time.time() - touched[1] / 1e9 < UNTOUCHED_S:  # or its time is in the future: the clock was set back
            time.sleep(UNTOUCHED_S)
        file.seek(0)
        raw = file.read(LARGEST_BYTES + 1)
        if len(raw) > LARGEST_BYTES:
            raise ConfigError(path, "", f"{len(raw)} bytes or more", f"at most {LARGEST_BYTES} bytes")
        if _size_and_mtime(file) == touched:
            return raw
        if time.monotonic() >= deadline:
            changing = f"a file that has kept changing for {PATIENCE_S:g} s"
            raise ConfigError(path, "", changing, "a complete file: write a new one and rename it into place")


def _size_and_mtime(file: BinaryIO) -> tuple[int, int]:
    now = os.fstat(file.fileno())
    return now.st_size, now.st_mtime_ns


# The document

MOST_SITES = 128
MOST_SERVERS = 64
MOST_UPLINKS = 8
MOST_SUBNETS = 250
MOST_TERMINALS = 250
LONGEST_WINDOW_MS = 10_000
COPIES = CopyWindow(floor_ms=200, ceiling_ms=1000)
EXITS: dict[str, Exit | None] = {"false": None, **{each.value: each for each in Exit}}
MOST_ADDRESSES = MOST_UPLINKS * len(Family)  # one in the subnet of each uplink


def load(path: str) -> Config:
    return _config(document.parse(path, read(path)))


def parse(text: bytes | str, path: str = "gateway.yaml") -> Config:
    return _config(document.parse(path, text))


def _config(top: Node) -> Config:
    keys = top.mapping("controller", "servers", required=("sites",))
    places = dict(keys["sites"].by_name(MOST_SITES, "sites"))
    settings = settings_of(keys.maybe("controller", lambda place: place, Node(top.file, "controller", {})))
    sites = mirrored({name: _site(name, place) for name, place in places.items()}, places)
    if not sites:
        raise keys["sites"].wrong("at least one site")
    sites = tunnelled(sites, places, settings)
    can_be_measured(sites, places, settings)
    can_be_relayed(sites, places, settings)
    sites = without_copies(sites, places)
    config = Config(settings, sites, keys.maybe("servers", lambda place: _servers(place, sites), ()))
    once(
        ((f"sites.{site.name}.dpid", f"{site.dpid:016x}") for site in sites), top.file, "a dpid that no other site has"
    )
    once(
        (
            (f"sites.{site.name}.terminals.{terminal.name}", terminal.name)
            for site in sites
            for terminal in site.terminals
        ),
        top.file,
        "a terminal name that no other site has",
    )
    once(((f"sites.{site.name}.bridge", site.bridge) for site in sites), top.file, "a bridge that no other site has")
    listeners_off_bridges(listeners(settings, "controller"), sites, top.file)
    return config


def _servers(place: Node, sites: tuple[Site, ...]) -> tuple[str, ...]:
    """Return the names of server agents. A terminal or site cannot share one: its agent has another role."""
    others = {site.name for site in sites} | {each.name for site in sites for each in site.terminals}
    expected = (
        "the name of an agent, listed once and not used by a terminal or site: at most 63 of a-z, 0-9 "
        "and '-', not starting with '-'"
    )
    names: list[str] = []
    for each in place.each(MOST_SERVERS, "servers"):
        name = each.text(expected)
        if not enrolment.NAME.fullmatch(name) or name in others or name in (*names, EVERYBODY, CONTROLLER):
            raise each.wrong(expected)
        names.append(name)
    return tuple(names)


def _site(name: str, place: Node) -> Site:
    keys = place.mapping(
        *("datapath", "bicast", "classes", "copies", "access_points", "bridge", "mirrors", "relaying", "reach"),
        "terminals",
        required=("dpid", "uplinks", "subnets"),
    )
    chosen = keys.maybe("bicast", _bicast, None)
    uplinks = tuple(_uplink(label, inner) for label, inner in keys["uplinks"].by_name(MOST_UPLINKS, "uplinks"))
    if not uplinks:
        raise keys["uplinks"].wrong("at least one uplink")
    uplink_names = {uplink.name: uplink.name for uplink in uplinks}
    subnets = tuple(
        _subnet(label, inner, uplink_names) for label, inner in keys["subnets"].by_name(MOST_SUBNETS, "subnets")
    )
    relaying = keys.maybe("relaying", lambda at: relaying_of(at, uplinks), None)
    networks_apart(uplinks, (*subnets, *subnets_of(relaying)), place)
    reach = keys.maybe("reach", lambda at: reach_of(at, uplinks, subnets), ())
    uplinks = tuple(reaching(uplink, reach) for uplink in uplinks)
    access_points = keys.maybe("access_points", access_points_of, ())
    named = keys.maybe("classes", classes_of, ())
    air = {access_point.name: access_point.name for access_point in access_points}
    written = keys.maybe("terminals", lambda at: dict(at.by_name(MOST_TERMINALS, "terminals")), {})
    of_lans = {each.name: Node(place.file, f"{place.where}.terminals.{each.name}", {}) for each in subnets if each.lan}
    terminals = tuple(
        _terminal(label, at, subnets, uplink_names, air, named) for label, at in {**of_lans, **written}.items()
    )
    site = Site(
        name=name,
        dpid=_dpid(keys["dpid"]),
        bridge=keys.maybe("bridge", Node.port_name, f"br-{name}"[:15]),
        datapath=keys.maybe("datapath", lambda at: at.choice({kind.value: kind for kind in Datapath}), Datapath.SYSTEM),
        bicast=chosen or TrafficClass(BICAST, (Protocol.TCP,)),
        bicast_once=chosen or TrafficClass(BICAST, ()),
        copies=keys.maybe("copies", _copies, COPIES),
        uplinks=uplinks,
        subnets=(*subnets, *subnets_of(relaying)),
        terminals=terminals,
        access_points=access_points,
        peer_of=keys.maybe("mirrors", Node.text, None),
        named=named,
        relaying=relaying,
    )
    ports_once(site, place)
    addresses_once(site, place)
    site = replace(site, terminals=spoken_for(terminals, relaying, place))
    keys.maybe("classes", lambda at: few_enough(named, site.terminals, at), None)
    _check_mode_off(site, place)
    return site


def _check_mode_off(site: Site, place: Node) -> None:
    """Check mode off: each address leaves by one uplink, which needs a next hop of its family."""
    for subnet in site.subnets:
        for own in subnet.gateways:
            if subnet.uplink and not site.uplink(subnet.uplink).next_hop(Family.of(own)):
                where, expected = f"subnets.{subnet.name}.uplink", f"an uplink with a next hop for IPv{own.version}"
                raise ConfigError(place.file, f"{place.where}.{where}", subnet.uplink, expected)
    for terminal in site.terminals:
        default = site.uplink(terminal.default_uplink)
        for inside in terminal.addresses:
            if not site.subnet(inside.subnet).uplink and not default.next_hop(Family.of(inside.address)):
                where, expected = (
                    f"terminals.{terminal.name}.default_uplink",
                    f"an uplink with a next hop for {inside.address}",
                )
                raise ConfigError(place.file, f"{place.where}.{where}", default.name, expected)


def _dpid(place: Node) -> int:
    expected = "a datapath id of 16 hexadecimal digits, not all zero, such as 0000000000000001"
    text = place.text(expected).lower()
    if len(text) != 16 or set(text) - set("0123456789abcdef") or not int(text, 16):
        raise place.wrong(expected)
    return int(text, 16)


def _bicast(place: Node) -> TrafficClass:
    options = {protocol.label: protocol for protocol in Protocol}
    chosen = place.each(len(Protocol), "protocols, each once")
    if [inner.value for inner in chosen] == ["all"]:
        return TrafficClass(BICAST, ())
    protocols = tuple(inner.choice(options) for inner in chosen)
    if not protocols or len(set(protocols)) != len(protocols):
        raise place.wrong(f"a list of protocols, each once, of {', '.join(options)}, or [all]")
    return TrafficClass(BICAST, protocols)


def _copies(place: Node) -> CopyWindow:
    keys = place.mapping("window_floor_ms", "window_ceiling_ms")
    ceiling_ms = keys.maybe("window_ceiling_ms", lambda at: at.integer(1, LONGEST_WINDOW_MS), COPIES.ceiling_ms)
    floor_ms = keys.maybe("window_floor_ms", lambda at: at.integer(1, ceiling_ms), min(COPIES.floor_ms, ceiling_ms))
    return CopyWindow(floor_ms, ceiling_ms)


def _uplink(name: str, place: Node) -> Uplink:
    if name == AUTO:
        raise ConfigError(place.file, place.where, name, "another name: this one lets policies choose an uplink")
    keys = place.mapping(
        "kind", "mac", *OF_TUNNELS, *OF_BUDGETS, *OF_MEASURING, required=("port", "addresses", "next_hops")
    )
    addresses = interfaces(keys["addresses"])
    next_hops = tuple(
        _next_hop(inner, addresses) for inner in keys["next_hops"].each(len(Family), "next hops, one of each family")
    )
    if not next_hops:
        raise keys["next_hops"].wrong("at least one next hop")
    one_a_family(tuple(hop.address for hop in next_hops), keys["next_hops"])
    tunnel = tunnel_of(keys)
    return Uplink(
        name=name,
        port=keys["port"].port_name(),
        mac=keys.maybe("mac", Node.mac, None),
        addresses=addresses,
        next_hops=next_hops,
        tunnel=tunnel,
        limits=limits_of(keys),
        measure=measure_of(keys, tunnel),
        nat_device=nat_device_of(keys),
    )


def _next_hop(place: Node, own: tuple[Interface, ...]) -> NextHop:
    keys = place.mapping("mac", required=("address",))
    address = keys["address"].next_hop_address()
    same_family = [interface for interface in own if Family.of(interface) is Family.of(address)]
    reachable = [interface for interface in same_family if address in interface.network]
    if not same_family or not (reachable or (address.version == 6 and address.is_link_local)):
        networks = ", ".join(str(interface.network) for interface in own)
        raise keys["address"].wrong(f"an address in the uplink's own networks {networks}, or a link-local one")
    if address in [interface.ip for interface in own]:
        raise keys["address"].wrong("another host's address: this one belongs to the uplink itself")
    for interface in reachable:
        a_host(keys["address"], address, interface)
    return NextHop(address, keys.maybe("mac", Node.mac, None))


def _subnet(name: str, place: Node, uplinks: dict[str, str]) -> Subnet:
    of_lan = ("device", "port") if {"device", "port"} & place.named().keys() else ()
    keys = place.mapping("mac", "uplink", "device", "port", required=("gateways", *of_lan))
    served = keys.maybe("device", lambda at: Lan(at.port_name(), pair_port(keys["port"])), None)
    return Subnet(
        name=name,
        gateways=interfaces(keys["gateways"]),
        mac=keys.maybe("mac", Node.mac, BRIDGE_MAC if served else None),
        uplink=keys.maybe("uplink", lambda at: at.choice(uplinks), None),
        lan=served,
    )


def _terminal(
    name: str,
    place: Node,
    subnets: tuple[Subnet, ...],
    uplinks: dict[str, str],
    access_points: dict[str, str],
    classes: tuple[TrafficClass, ...],
) -> Terminal:
    if name == EVERYBODY:
        raise ConfigError(place.file, place.where, name, "another name: this one means all terminals")
    lan = next((subnet for subnet in subnets if subnet.lan and subnet.name == name), None)
    of_hosts = () if lan else ("access_point", "exit", "relayed")
    keys = place.mapping("mode", "modes", "default_uplink", *of_hosts, required=() if lan else ("addresses",))
    inside = list(_networks(lan)) if lan else _hosts(name, keys["addresses"], subnets)
    return Terminal(
        name=name,
        addresses=tuple(inside),
        mode=keys.maybe("mode", lambda at: at.choice({mode.value: mode for mode in Mode}), Mode.AUTO),
        default_uplink=keys.maybe("default_uplink", lambda at: at.choice(uplinks), next(iter(uplinks))),
        access_point=keys.maybe("access_point", lambda at: at.choice(access_points), None),
        modes=keys.maybe("modes", lambda at: modes_of(at, classes), ()),
        exit=keys.maybe("exit", lambda at: at.choice(EXITS), None),
        relayed=keys.maybe("relayed", Node.yes_or_no, False),
    )


def _networks(subnet: Subnet) -> Iterator[TerminalAddress]:
    """Yield the networks of a LAN: one terminal is all of its devices without an entry."""
    if subnet.lan:
        for own in subnet.gateways:
            yield TerminalAddress(own.network, subnet.name, subnet.lan.port, HOST_MAC)


def _hosts(name: str, place: Node, subnets: tuple[Subnet, ...]) -> list[TerminalAddress]:
    inside = [_terminal_address(name, inner, subnets) for inner in place.each(MOST_ADDRESSES, "addresses")]
    if not inside:
        raise place.wrong("at least one address")
    for family in Family:
        _check_one_per_subflow([each for each in inside if Family.of(each.address) is family], subnets, place)
    return inside


def _terminal_address(name: str, place: Node, subnets: tuple[Subnet, ...]) -> TerminalAddress:
    keys: Mapped = place.mapping("mac", "port", required=("address",))
    address = keys["address"].address()
    subnet = next((subnet for subnet in subnets if subnet.holds(address)), None)
    if subnet is None:
        networks = ", ".join(str(own.network) for each in subnets for own in each.gateways)
        raise keys["address"].wrong(f"an address in one of the site's subnets {networks}")
    gateway = subnet.gateway(Family.of(address))
    assert gateway is not None
    a_host(keys["address"], address, gateway)
    mac, port = keys.maybe("mac", Node.mac, None), keys.maybe("port", Node.port_name, None)
    if subnet.lan and port is None:
        return TerminalAddress(address, subnet.name, subnet.lan.port, HOST_MAC, leased_to=mac or name)
    if subnet.lan or port is None:
        expected = (
            f"no port: the host serves the subnet {subnet.name}" if subnet.lan else "a value: this key is required"
        )
        raise ConfigError(place.file, f"{place.where}.port", port, expected)
    return TerminalAddress(address, subnet.name, port, mac)


def _check_one_per_subflow(places: list[TerminalAddress], subnets: tuple[Subnet, ...], place: Node) -> None:
    """Raise ConfigError unless each of several addresses has another uplink of its own."""
    if len(places) < 2:
        return
    uplink_of = {subnet.name: subnet.uplink for subnet in subnets}
    uplinks = [uplink_of[inside.subnet] for inside in places]
    if None in uplinks or len(set(uplinks)) != len(uplinks):
        raise place.wrong("one address of each family, or one in each of several subnets that have their own uplinks")
