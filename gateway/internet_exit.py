# SPDX-License-Identifier: Apache-2.0
"""The exit that is this host: the peer site's terminals reach the internet by its routes and behind its addresses.

The host forwards between its end of the pair and the devices that lead on. From there only replies come in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_interface

from controller.model.config import Exit, Site
from controller.model.traffic import Address, Family, Interface, Network
from gateway import host_end
from gateway.host import ip_rows
from gateway.links import Link
from gateway.ovs import SeenBridge
from gateway.step import HostState, SeenHostEnd, Step

NAME, TABLE = "internet exit", "bicast-exit"
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


def port_of(site: Site) -> str | None:
    """Return the bridge's end of the pair; None: this host is not the site's exit."""
    return site.exit.addresses[0].port if site.exit and site.exit.exit is Exit.HOST else None


def read(site: Site, port: str, links: Mapping[str, Link]) -> SeenHostEnd:
    return host_end.seen(TABLE, _wanted_sysctls(site, port, links), _routes(host_end.host_end(port), links))


def _routes(name: str, links: Mapping[str, Link]) -> Iterator[str]:
    for family in ("-4", "-6") if name in links else ():
        for route in ip_rows(family, "route", "show", "dev", name):
            if "gateway" in route:
                yield route["dst"]


def steps(site: Site, bridge: SeenBridge | None, seen: HostState) -> Iterator[Step]:
    port = port_of(site)
    if port is None:
        return
    end, links, found = host_end.host_end(port), seen.links, seen.host_ends[port]
    wanted, rules = _wanted_sysctls(site, port, links), RULES.format(inside=end)
    yield from host_end.routing(NAME, TABLE, rules, port, bridge, wanted, found)
    for own, gateway in _ends(site):
        yield host_end.address(end, own, links)
        for network in _subnets_there(site):
            if network.version == gateway.version:
                there = str(network) in found.routes
                command = ("ip", "route", "replace", str(network), "via", str(gateway), "dev", end)
                yield Step(f"route {network}", end if there else "absent", end, () if there else (command,))


def _wanted_sysctls(site: Site, port: str, links: Mapping[str, Link]) -> dict[str, str]:
    families = tuple(Family.of(own) for own, _ in _ends(site))
    return host_end.forwarding(families, (host_end.host_end(port),), host_end.onward(site, links))


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


def removal(site: Site, bridge: SeenBridge | None, seen: HostState) -> Iterator[Step]:
    port = port_of(site)
    if port is not None:
        yield from host_end.removal(NAME, TABLE, port, bridge, seen.links, seen.host_ends[port])
