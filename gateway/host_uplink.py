# SPDX-License-Identifier: Apache-2.0
"""Uplinks of kind host: this host routes their packets on by one of its interfaces, behind that interface's address.

    bridge ── port ═ host's end ── routes and NAT of this host ── device ── provider

DHCP, PPPoE or a modem manager gives the device its address and its default route; this module follows them. A packet
crosses the host twice, from the LAN to the bridge and from the bridge to the device. So conntrack keeps a connection
once for each uplink, apart from the LAN's (a zone). Answers return by the bridge (a mark), which counts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_interface

from controller.model.config import Site
from controller.model.traffic import Family
from controller.model.uplink import Uplink
from gateway import host_end
from gateway.host import ip_rows
from gateway.links import Link
from gateway.ovs import SeenBridge
from gateway.step import HostState, SeenHostEnd, Step

RULES_AT = 8640  # before those of LANs
TABLES_AT = 8660  # routes of the first uplink
MARKS_AT = 0x6270
LAST_METRIC = 4278198272
RULES = """\
table inet {table} {{
	chain apart {{
		type filter hook prerouting priority raw; policy accept;
		iifname "{end}" ct original zone set {zone}
	}}

	chain returning {{
		type filter hook prerouting priority mangle; policy accept;
		iifname "{end}" ct mark set {mark}
		iifname "{device}" ct mark {mark} meta mark set ct mark
	}}

	chain leaving {{
		type nat hook postrouting priority srcnat; policy accept;
		iifname "{end}" oifname "{device}" masquerade
	}}

	chain entering {{
		type filter hook forward priority filter; policy accept;
		oifname "{end}" ct state != {{ established, related }} drop
	}}
}}
"""


def uplinks(site: Site) -> tuple[tuple[int, Uplink, str], ...]:
    """Return each uplink with its number and the interface that leads on."""
    return tuple((number, each, each.nat_device) for number, each in enumerate(site.uplinks) if each.nat_device)


def ports_of(site: Site) -> tuple[str, ...]:
    return tuple(each.port for _, each, _ in uplinks(site))


def _table(uplink: Uplink) -> str:
    return f"bicast-{uplink.port}"


def read(site: Site, links: Mapping[str, Link]) -> dict[str, SeenHostEnd]:
    if not uplinks(site):
        return {}
    shared = (*_defaults(), *_rules())
    return {
        uplink.port: host_end.seen(
            _table(uplink), _wanted_sysctls(uplink, device, links), (*shared, *_routes(TABLES_AT + number))
        )
        for number, uplink, device in uplinks(site)
    }


def _defaults() -> Iterator[str]:
    """Yield the host's default routes, the preferred one of each device first."""
    for family in Family:
        rows = ip_rows(f"-{family.version}", "route", "show", "default")
        for row in sorted(rows, key=lambda one: int(one.get("metric", 0))):
            for hop in row.get("nexthops", [row]):
                via = f"via {hop['gateway']} " if "gateway" in hop else ""
                yield f"IPv{family.version} of {hop.get('dev')}: default {via}dev {hop.get('dev')}"


def _rules() -> Iterator[str]:
    for family in Family:
        for rule in ip_rows(f"-{family.version}", "rule", "show"):
            if rule["priority"] in (RULES_AT, RULES_AT + 1):
                mark = f" fwmark {rule['fwmark']}" if "fwmark" in rule else ""
                where = f"iif {rule.get('iif')} lookup {rule['table']}"
                yield f"-{family.version} priority {rule['priority']}{mark} {where}"


def _routes(table: int) -> Iterator[str]:
    for family, row in host_end.routes_of(table):
        if row.get("type") == "blackhole":
            yield f"-{family.version} blackhole default"
        else:
            via = f"via {row['gateway']} " if "gateway" in row else ""
            yield f"-{family.version} {row['dst']} {via}dev {row.get('dev')}"


# Steps


def pairs(site: Site, links: Mapping[str, Link]) -> Iterator[Step]:
    for _, uplink, _ in uplinks(site):
        yield from host_end.pair(uplink.port, links)


def steps(site: Site, bridge: SeenBridge | None, seen: HostState) -> Iterator[Step]:
    for number, uplink, device in uplinks(site):
        end, found = host_end.host_end(uplink.port), seen.host_ends[uplink.port]
        wanted, mark = _wanted_sysctls(uplink, device, seen.links), f"{MARKS_AT + number:#010x}"
        rules = RULES.format(table=_table(uplink), end=end, device=device, mark=mark, zone=number + 1)
        yield from host_end.routing(device, _table(uplink), rules, uplink.port, bridge, wanted, found)
        for hop in uplink.next_hops:
            bridge_own = uplink.address(Family.of(hop.address))
            assert bridge_own is not None  # ensured by edges/config/load.py
            own = ip_interface(f"{hop.address}/{bridge_own.network.prefixlen}")
            yield host_end.address(end, own, seen.links)
            yield _way_on(site, uplink, device, number, Family.of(hop.address), found)


def _way_on(site: Site, uplink: Uplink, device: str, number: int, family: Family, found: SeenHostEnd) -> Step:
    """Return the step for the routes: on by the device as the host has them, and back to the bridge."""
    end, table, version = host_end.host_end(uplink.port), TABLES_AT + number, f"-{family.version}"
    own = uplink.address(family)
    known = f"IPv{family.version} of {device}: "
    onward = next((each.removeprefix(known) for each in found.routes if each.startswith(known)), None)
    subnets = [each.network for subnet in site.subnets for each in subnet.gateways if Family.of(each) is family]
    back = [f"{network} via {own.ip} dev {end}" for network in subnets] if own else []
    back += [f"{own.network} dev {end}"] if own else []
    wanted = {f"{version} {route}" for route in (*back, "blackhole default", *([onward] if onward else []))}
    there = {each for each in found.routes if each.startswith(f"{version} ") and "priority" not in each}
    rules = {
        f"{version} priority {RULES_AT} fwmark {MARKS_AT + number:#x} iif {device} lookup {table}",
        f"{version} priority {RULES_AT + 1} iif {end} lookup {table}",
    }
    commands = [("ip", version, "route", "delete", *each.split()[1:], "table", str(table)) for each in there - wanted]
    for route in sorted(wanted - there):
        last = ("metric", str(LAST_METRIC)) if "blackhole" in route else ()
        commands.append(("ip", version, "route", "replace", *route.split()[1:], "table", str(table), *last))
    commands += [("ip", version, "rule", "add", *rule.split()[1:]) for rule in sorted(rules - found.routes)]
    way = onward or f"no default route of {device} yet"
    return Step(f"{uplink.name} IPv{family.version}", "another way" if commands else way, way, tuple(commands))


def _wanted_sysctls(uplink: Uplink, device: str, links: Mapping[str, Link]) -> dict[str, str]:
    end = host_end.host_end(uplink.port)
    onward = [device] if device in links else []
    families = [Family.of(own) for own in uplink.addresses]
    # Answers come from the device for addresses of the LAN, and packets of the LAN from the bridge.
    loose = {f"net/ipv4/conf/{name}/rp_filter": "2" for name in (*onward, end)}
    return host_end.forwarding(families, (end,), onward) | loose


# Undo


def removal(site: Site, bridge: SeenBridge | None, seen: HostState) -> Iterator[Step]:
    for number, uplink, device in uplinks(site):
        found = seen.host_ends[uplink.port]
        for rule in sorted(each for each in found.routes if each.endswith(f"lookup {TABLES_AT + number}")):
            family, *words = rule.split()
            yield Step(f"rule {' '.join(words)}", "present", "absent", (("ip", family, "rule", "delete", *words),))
        for family in ("-4", "-6"):
            if any(each.startswith(f"{family} ") and "priority" not in each for each in found.routes):
                command = ("ip", family, "route", "flush", "table", str(TABLES_AT + number))
                yield Step(f"table {TABLES_AT + number}", "present", "absent", (command,))
        yield from host_end.removal(device, _table(uplink), uplink.port, bridge, seen.links, found)
