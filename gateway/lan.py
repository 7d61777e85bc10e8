# SPDX-License-Identifier: Apache-2.0
"""The LANs that this host serves: it is the router of their devices, and the bridge is its way out.

    devices ── device ── routes of this host ── host's end ═ port ── bridge ── uplinks

What comes from a LAN, and from the host's own address in it, leaves by the bridge. While no tunnel is up, the site's
agent sets the port down. The host then ignores the routes over it, and new connections leave by the host's own default
route and NAT. Each connection stays on its way to the end: a change of address would break it. UDP flows that left by
the bridge go on by the host's own route, as calls do when a telephone leaves Wi-Fi.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.model.config import Lan, Site, Subnet
from controller.model.relaying import BRIDGE_MAC, HOST_MAC
from controller.model.traffic import Family, Interface
from gateway import host_end
from gateway.host import ip_rows, ovs_vsctl
from gateway.links import Link
from gateway.ovs import ADDRESSES, SeenBridge
from gateway.ports import set_up_by_agent, underlays_of
from gateway.step import HostState, SeenHostEnd, Step

RULES_AT = 8650  # the priority of the first rule; the tables of routes have the numbers after it
MARK = 0x6269  # of connections that left by the host's own default route
UDP_MARK = 0x626A  # of UDP flows that left by the bridge; the agent's tunnel/flows.go knows it
RULES_OF_NETWORK = (  # for packets from a network of a LAN
    f"fwmark {MARK:#x} lookup main",
    "lookup main suppress_prefixlength 0",  # the host's other routes, all but the default one
    "lookup {table}",
)
NEXT_HOPS = {Family.IPV4: "169.254.98.1", Family.IPV6: "fe80::62"}  # nobody answers for them: their MAC is fixed
RULES = """\
table inet {table} {{
	chain staying {{
		type filter hook prerouting priority mangle; policy accept;
		iifname "{device}" ct mark {mark} meta mark set ct mark
	}}

	chain leaving {{
		type nat hook postrouting priority srcnat; policy accept;
{leaving}	}}

	chain entering {{
		type filter hook forward priority filter; policy accept;
		iifname "{device}" oifname "{end}" meta l4proto udp ct mark 0x00000000 ct mark set {udp}
{entering}	}}
}}
"""
LEAVING = '\t\tiifname "{inside}" oifname "{outside}" ct mark set {mark} masquerade\n'
ENTERING = (
    '\t\tiifname "{outside}" oifname "{inside}" ct state != {{ established, related }} drop\n'
    '\t\tiifname "{inside}" oifname "{outside}" ct state established ct mark != {mark} drop\n'
)


def lans(site: Site) -> tuple[tuple[Subnet, Lan], ...]:
    return tuple((subnet, subnet.lan) for subnet in site.subnets if subnet.lan)


def _table(lan: Lan) -> str:
    return f"bicast-{lan.port}"


def read(site: Site, links: Mapping[str, Link]) -> dict[str, SeenHostEnd]:
    rules = tuple(_rules()) if lans(site) else ()
    found = {}
    for number, (subnet, lan) in enumerate(lans(site), 1):
        routes = (*rules, *_routes(RULES_AT + number), *_neighbours(host_end.host_end(lan.port), links))
        found[lan.port] = host_end.seen(_table(lan), _wanted_sysctls(site, subnet, lan, links), routes)
    return found


def _rules() -> Iterator[str]:
    for family in ("-4", "-6"):
        for rule in ip_rows(family, "rule", "show"):
            if RULES_AT <= rule["priority"] < RULES_AT + len(RULES_OF_NETWORK) and "srclen" in rule:
                source = f"priority {rule['priority']} from {rule['src']}/{rule['srclen']}"
                mark = f" fwmark {rule['fwmark']}" if "fwmark" in rule else ""
                only = " suppress_prefixlength 0" if rule.get("suppress_prefixlen") == 0 else ""
                yield f"{source}{mark} lookup {rule['table']}{only}"


def _routes(table: int) -> Iterator[str]:
    for _, route in host_end.routes_of(table):
        yield f"{route['dst']} via {route.get('gateway')} dev {route.get('dev')} table {table}"


def _neighbours(end: str, links: Mapping[str, Link]) -> Iterator[str]:
    if end in links:
        for one in ip_rows("neighbour", "show", "dev", end, "nud", "permanent"):
            yield f"{one['dst']} lladdr {one.get('lladdr')} dev {end}"


# Steps


def pairs(site: Site, links: Mapping[str, Link]) -> Iterator[Step]:
    for subnet, lan in lans(site):
        macs = subnet.mac or BRIDGE_MAC, HOST_MAC
        yield from host_end.pair(lan.port, links, macs, down=lan.port in set_up_by_agent(site))


def steps(site: Site, bridge: SeenBridge | None, seen: HostState) -> Iterator[Step]:
    for number, (subnet, lan) in enumerate(lans(site), 1):
        found, link = seen.host_ends[lan.port], seen.links.get(lan.device)
        wanted, rules = _wanted_sysctls(site, subnet, lan, seen.links), _nat(site, lan, seen.links)
        yield from host_end.routing(lan.device, _table(lan), rules, lan.port, bridge, wanted, found)
        if link:
            yield from _served(subnet, lan, link, bridge)
        for own in subnet.gateways:
            yield from _led(own, subnet, lan, RULES_AT + number, found)


def _served(subnet: Subnet, lan: Lan, link: Link, bridge: SeenBridge | None) -> Iterator[Step]:
    up: tuple[tuple[str, ...], ...] = () if link.up else (("ip", "link", "set", "dev", lan.device, "up"),)
    yield Step(f"{lan.device} link", "up" if link.up else "down", "up", up)
    absent = [str(own) for own in subnet.gateways if own not in link.addresses]
    addresses, commands = " ".join(map(str, subnet.gateways)), []
    if absent:
        remembered = " ".join(dict.fromkeys((*_given(lan, bridge), *absent)))
        commands = [ovs_vsctl("set", "Interface", lan.port, f'external_ids:{ADDRESSES}="{remembered}"')]
        commands += [("ip", "address", "replace", own, "dev", lan.device) for own in absent]
    found = f"without {' '.join(absent)}" if absent else addresses
    yield Step(f"{lan.device} addresses", found, addresses, tuple(commands))


def _given(lan: Lan, bridge: SeenBridge | None) -> tuple[str, ...]:
    """Return the addresses that bicast gave to the device."""
    row = bridge.port(lan.port) if bridge else None
    return row.addresses_given if row else ()


def _led(own: Interface, subnet: Subnet, lan: Lan, table: int, found: SeenHostEnd) -> Iterator[Step]:
    """Yield the steps that lead one network of the LAN to the bridge."""
    end, hop, family = host_end.host_end(lan.port), NEXT_HOPS[Family.of(own)], f"-{own.version}"
    neighbour = f"{hop} lladdr {subnet.mac or BRIDGE_MAC} dev {end}"
    route = f"default via {hop} dev {end} table {table}"
    rules = tuple(
        f"priority {priority} from {own.network} {rule.format(table=table)}"
        for priority, rule in enumerate(RULES_OF_NETWORK, RULES_AT)
    )
    there = {neighbour, route, *rules} <= found.routes
    commands: list[tuple[str, ...]] = []
    if not there:
        commands.append(("ip", family, "neighbour", "replace", *neighbour.split(), "nud", "permanent"))
        commands.append(("ip", family, "route", "replace", *route.split(), *(("onlink",) if own.version == 4 else ())))
        missing = (each for each in rules if each not in found.routes)
        commands += [("ip", family, "rule", "add", *each.split()) for each in missing]
    wanted = f"by {lan.port}"
    yield Step(f"way of {own.network}", wanted if there else "not by the bridge", wanted, tuple(commands))


def _wanted_sysctls(site: Site, subnet: Subnet, lan: Lan, links: Mapping[str, Link]) -> dict[str, str]:
    end = host_end.host_end(lan.port)
    inside = [end, *([lan.device] if lan.device in links else [])]
    families = [Family.of(own) for own in subnet.gateways]
    down = {f"net/ipv{each.version}/conf/{end}/ignore_routes_with_linkdown": "1" for each in families}
    return host_end.forwarding(families, inside, host_end.onward(site, links)) | down


def _nat(site: Site, lan: Lan, links: Mapping[str, Link]) -> str:
    names = [*underlays_of(site), *host_end.onward(site, links)]
    outside = [name for name in dict.fromkeys(names) if name != lan.device]
    mark, udp = f"{MARK:#010x}", f"{UDP_MARK:#010x}"  # as nft writes them
    end = host_end.host_end(lan.port)
    leaving, entering = (
        "".join(line.format(inside=lan.device, outside=name, mark=mark) for name in outside)
        for line in (LEAVING, ENTERING)
    )
    return RULES.format(
        table=_table(lan), device=lan.device, end=end, mark=mark, udp=udp, leaving=leaving, entering=entering
    )


# Undo


def removal(site: Site, bridge: SeenBridge | None, seen: HostState) -> Iterator[Step]:
    for subnet, lan in lans(site):
        found = seen.host_ends[lan.port]
        networks = [str(own.network) for own in subnet.gateways]
        for rule in sorted(each for each in found.routes if each.startswith("priority ")):
            if rule.split()[3] in networks:
                family = "-6" if ":" in rule else "-4"
                yield Step(f"rule {rule}", "present", "absent", (("ip", family, "rule", "delete", *rule.split()),))
        link = seen.links.get(lan.device)
        for own in _given(lan, bridge) if link else ():
            if own in map(str, link.addresses if link else ()):
                command = ("ip", "address", "delete", own, "dev", lan.device)
                yield Step(f"{lan.device} {own}", "present", "absent", (command,))
        yield from host_end.removal(lan.device, _table(lan), lan.port, bridge, seen.links, found)
