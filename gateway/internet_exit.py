# SPDX-License-Identifier: Apache-2.0
"""The exit that is this host: the peer site's terminals reach the internet by its routes and behind its addresses.

    bridge ── port ═ host's end ── routes and NAT of this host ── internet

The host forwards between its end of the pair and the devices that lead on. From there only replies come in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_interface, ip_network

from controller.model.config import Exit, Site
from controller.model.relaying import HOST_END
from controller.model.traffic import Address, Family, Interface, Network
from gateway.host import HostError, ovs_vsctl, run, sysctl
from gateway.links import Link
from gateway.ovs import SYSCTLS, SeenBridge
from gateway.step import HostState, SeenExit, Step

TABLE = ("inet", "bicast-exit")
RULES = """\
table inet bicast-exit {{
	chain leaving {{
		type nat hook postrouting priority srcnat; policy accept;
		iifname "{inside}" masquerade
	}}

	chain entering {{
		type filter hook forward priority filter; policy accept;
		oifname "{inside}" ct state != {{ established, related }} drop
	}}
}}
"""
OFF = ("tx", "off", "rx", "off", "tso", "off", "gso", "off", "gro", "off")


def port_of(site: Site) -> str | None:
    """Return the bridge's end of the pair; None: this host is not the site's exit."""
    return site.exit.addresses[0].port if site.exit and site.exit.exit is Exit.HOST else None


def host_end(port: str) -> str:
    return f"{port}{HOST_END}"


def read(site: Site, port: str, links: Mapping[str, Link]) -> SeenExit:
    names = _wanted_sysctls(site, port, links)
    return SeenExit(_rules(), frozenset(_routes(host_end(port), links)), {name: sysctl(name) or "" for name in names})


def _rules() -> str:
    try:
        return run(("nft", "list", "table", *TABLE)).out
    except HostError:  # there is no such table
        return ""


def _routes(name: str, links: Mapping[str, Link]) -> Iterator[Network]:
    for family in ("-4", "-6") if name in links else ():
        for route in json.loads(run(("ip", "-json", family, "route", "show", "dev", name)).out or "[]"):
            if "gateway" in route:
                yield ip_network(route["dst"])


# Before the bridge's ports: a port needs its device


def pair(site: Site, links: Mapping[str, Link]) -> Iterator[Step]:
    port = port_of(site)
    if port is None:
        return
    end, name = host_end(port), f"{port} pair"
    if port in links and end in links:
        yield Step(name, "present", "present")
        up: tuple[tuple[str, ...], ...] = () if links[end].up else (("ip", "link", "set", "dev", end, "up"),)
        yield Step(f"{end} link", "up" if links[end].up else "down", "up", up)
        return
    ends = (port, end)
    commands: tuple[tuple[str, ...], ...] = (
        ("ip", "link", "add", port, "type", "veth", "peer", "name", end),
        *(("ethtool", "-K", each, *OFF) for each in ends),
        ("sysctl", "--quiet", "--write", f"net/ipv6/conf/{port}/disable_ipv6=1"),
        *(("ip", "link", "set", "dev", each, "up") for each in ends),
    )
    yield Step(name, "absent", "present", commands)


# After them


def steps(site: Site, bridge: SeenBridge | None, seen: HostState) -> Iterator[Step]:
    name = port_of(site)
    if name is None:
        return
    end, links, there_now = host_end(name), seen.links, seen.exits[site.name]
    port = bridge.port(name) if bridge else None
    yield _forwarding(name, _wanted_sysctls(site, name, links), there_now, port.sysctls_taken if port else ())
    for own, gateway in _ends(site):
        there = end in links and own in links[end].addresses
        command = ("ip", "address", "replace", str(own), "dev", end, *(("nodad",) if own.version == 6 else ()))
        yield Step(f"{end} {own}", "present" if there else "absent", "present", () if there else (command,))
        for network in _subnets_there(site):
            if network.version == gateway.version:
                there = network in there_now.routes
                command = ("ip", "route", "replace", str(network), "via", str(gateway), "dev", end)
                yield Step(f"route {network}", end if there else "absent", end, () if there else (command,))
    yield _nat(RULES.format(inside=end), there_now.rules)


def _forwarding(port: str, wanted: Mapping[str, str], seen: SeenExit, taken: tuple[str, ...]) -> Step:
    step = Step("internet exit forwarding", "on", "on")
    wrong = {name: value for name, value in wanted.items() if seen.sysctls[name] != value}
    if not wrong:
        return step
    set_before = dict(each.split("=") for each in taken)
    before = {name: seen.sysctls[name] for name in wrong if f"/{host_end(port)}/" not in name} | set_before
    remembered = " ".join(f"{name}={value}" for name, value in before.items())
    commands = (
        ovs_vsctl("set", "Interface", port, f'external_ids:{SYSCTLS}="{remembered}"'),
        ("sysctl", "--quiet", "--write", *(f"{name}={value}" for name, value in wrong.items())),
    )
    found = " ".join(f"{name}={seen.sysctls[name] or 'none'}" for name in wrong)
    return replace(step, found=found, commands=commands)


def _wanted_sysctls(site: Site, port: str, links: Mapping[str, Link]) -> dict[str, str]:
    """Return the values by name. Devices that lead on are those of the tunnels and of the default routes."""
    end = host_end(port)
    devices = [each.tunnel.device for each in site.uplinks if each.tunnel and each.tunnel.device]
    devices += [link.name for link in links.values() if link.default_routes]
    onward = [name for name in dict.fromkeys(devices) if name in links]
    wanted: dict[str, str] = {}
    for own, _ in _ends(site):
        if own.version == 4:
            wanted |= {f"net/ipv4/conf/{name}/forwarding": "1" for name in (*onward, end)}
            continue
        # A host that forwards ignores router advertisements unless this is 2.
        wanted |= {f"net/ipv6/conf/{name}/accept_ra": "2" for name in onward}
        wanted |= {f"net/ipv6/conf/{end}/disable_ipv6": "0", "net/ipv6/conf/all/forwarding": "1"}
    return wanted


def _ends(site: Site) -> Iterator[tuple[Interface, Address]]:
    """Yield each address of this host's end, and that of the bridge's."""
    for inside in site.exit.addresses if site.exit else ():
        gateway = site.subnet(inside.subnet).gateway(Family.of(inside.address))
        if gateway:
            yield ip_interface(f"{inside.address}/{gateway.network.prefixlen}"), gateway.ip


def _subnets_there(site: Site) -> Iterator[Network]:
    """Yield the networks of the peer site's terminals: all that it has but those between the sites."""
    between = {own.network for uplink in site.uplinks for own in uplink.addresses}
    return (network for network in site.networks_there if network not in between)


def _nat(rules: str, found: str) -> Step:
    wanted, table = "its rules", " ".join(TABLE)
    if found == rules:
        return Step("internet exit NAT", wanted, wanted)
    # In one transaction; a table that is not there cannot be deleted.
    command = ("nft", f"table {table}; delete table {table}; {_on_one_line(rules)}")
    return Step("internet exit NAT", "other rules" if found else "none", wanted, (command,))


def _on_one_line(rules: str) -> str:
    lines = (line.strip() for line in rules.splitlines() if line.strip())
    return " ".join(line if line.endswith(("{", ";")) else f"{line};" for line in lines)


# Undo


def removal(site: Site, bridge: SeenBridge | None, seen: HostState) -> Iterator[Step]:
    name = port_of(site)
    if name is None:
        return
    if seen.exits[site.name].rules:
        yield Step("internet exit NAT", "present", "none", (("nft", "delete", "table", *TABLE),))
    port = bridge.port(name) if bridge else None
    if port and port.sysctls_taken:
        command = ("sysctl", "--quiet", "--write", *port.sysctls_taken)
        yield Step("internet exit forwarding", "on", " ".join(port.sysctls_taken), (command,))
    if name in seen.links:
        yield Step(f"{name} pair", "present", "absent", (("ip", "link", "delete", name),))
