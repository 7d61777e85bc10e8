# SPDX-License-Identifier: Apache-2.0
"""The required state of a bridge's ports.

The site's agent (`bicast-agent run --role gateway`) creates the ports of tunnels and relaying; OVS adds a listed device
when it appears.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from controller.model.config import Datapath, Site
from gateway.host import ovs_vsctl
from gateway.links import Link, Offloads
from gateway.ovs import OFFLOADS, SeenBridge, SeenPort
from gateway.step import HostState, Step

UNMADE = "requested, but Open vSwitch could not create it"
HIGHEST = 0xFEFF  # OpenFlow or OVS reserve higher numbers


def tunnels_of(site: Site) -> tuple[str, ...]:
    return tuple(uplink.port for uplink in site.uplinks if uplink.tunnel)


def made_by_agent(site: Site) -> tuple[str, ...]:
    relaying = site.relaying
    return (*tunnels_of(site), *((relaying.port, *(each.port for each in relaying.uplinks)) if relaying else ()))


def set_up_by_agent(site: Site) -> tuple[str, ...]:
    """Return the ports of LANs that the site's agent sets up while a tunnel is up."""
    return site.lan_ports if tunnels_of(site) else ()


def underlays_of(site: Site) -> dict[str, str]:
    """Return the configured outer devices of tunnels, each with the port of one of its tunnels."""
    tunnels = ((uplink.tunnel.device, uplink.port) for uplink in reversed(site.uplinks) if uplink.tunnel)
    return {device: port for device, port in tunnels if device}


def read_by_us(site: Site) -> set[str]:
    """Return the ports whose offloads are turned off: those of a userspace datapath."""
    ports = site.ports if site.datapath is Datapath.NETDEV else ()
    return set(ports) - set(made_by_agent(site))


def awaited(site: Site, links: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in made_by_agent(site) if name not in links)


def steps(site: Site, bridge: SeenBridge | None, seen: HostState) -> Iterator[Step]:
    names = site.ports
    numbers = _numbers(names, bridge.ports if bridge else ())
    there = bridge is None or bridge.there
    for name in names:
        port, link = bridge.port(name) if bridge else None, seen.links.get(name)
        yield _port(site, name, numbers[name], port, link, there)
        if link is None or name in made_by_agent(site):
            continue
        if name not in set_up_by_agent(site):
            up: tuple[tuple[str, ...], ...] = () if link.up else (("ip", "link", "set", "dev", name, "up"),)
            yield Step(f"{name} link", "up" if link.up else "down", "up", up)
        if site.datapath is Datapath.NETDEV:
            yield _offloads_off(name, seen.offloads[name], port.offloads_taken if port else ())


def _port(site: Site, name: str, number: int, port: SeenPort | None, link: Link | None, there: bool) -> Step:
    bridge, wanted = site.bridge, f"in {site.bridge} with number {number}"
    request = ovs_vsctl("set", "Interface", name, f"ofport_request={number}")
    awaits = name in made_by_agent(site) and link is None
    if port is None:
        command = ovs_vsctl("add-port", bridge, name, "--", "set", "Interface", name, f"ofport_request={number}")
        return Step(f"{name} port", f"not in {bridge}", wanted, (command,), awaits=awaits)
    if not there:  # the port may open together with the bridge
        return Step(f"{name} port", UNMADE, wanted, (request,), awaits=awaits)
    if port.requested != number:
        return Step(f"{name} port", "its port number is not fixed", wanted, (request,), awaits=awaits)
    if awaits:
        return Step(f"{name} port", f"waits for its device, which the agent of {site.name} creates", wanted)
    if not port.number:
        return Step(f"{name} port", UNMADE, wanted, fault=unopened(port))
    if site.datapath is Datapath.NETDEV and link is not None and not link.promiscuous:
        # OVS keeps a removed device's socket until the port's number changes.
        other = ovs_vsctl("set", "Interface", name, f"ofport_request={HIGHEST}")
        return Step(
            f"{name} port",
            "recreated after Open vSwitch opened it, so its packets are not read",
            wanted,
            (other, request),
        )
    return Step(f"{name} port", wanted, wanted)


def unopened(port: SeenPort) -> str:
    return port.error or "Open vSwitch did not open it"


def _numbers(names: Iterable[str], ports: tuple[SeenPort, ...]) -> dict[str, int]:
    """Return the numbers of ports. A port keeps its number; the others get the lowest free ones."""
    numbers = {port.name: port.number or port.requested for port in ports}
    taken = {number for port in ports for number in (port.number, port.requested) if number}
    free = iter(number for number in range(1, HIGHEST) if number not in taken)
    return {name: numbers.get(name) or next(free) for name in names}


def _offloads_off(name: str, have: Offloads, taken: tuple[str, ...]) -> Step:
    if not have.on:
        return Step(f"{name} offloads", "off", "off")
    remembered = " ".join(sorted({*taken, *have.on}))
    return Step(
        f"{name} offloads",
        " ".join(have.on),
        "off",
        (
            ovs_vsctl("set", "Interface", name, f'external_ids:{OFFLOADS}="{remembered}"'),
            ("ethtool", "-K", name, *(word for feature in have.on for word in (feature, "off"))),
        ),
    )
