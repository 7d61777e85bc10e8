# SPDX-License-Identifier: Apache-2.0
"""A pair of devices between a bridge and this host, with the settings that the host needs to route over it.

bridge ── port ═ host's end ── routes and NAT of this host
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from controller.model.config import Site
from controller.model.relaying import HOST_END
from controller.model.traffic import Family, Interface
from gateway.host import HostError, ip_rows, ovs_vsctl, run, sysctl
from gateway.links import Link
from gateway.ovs import SYSCTLS, SeenBridge
from gateway.ports import underlays_of
from gateway.step import SeenHostEnd, Step

OFF = ("tx", "off", "rx", "off", "tso", "off", "gso", "off", "gro", "off")


def host_end(port: str) -> str:
    return f"{port}{HOST_END}"


def onward(site: Site, links: Mapping[str, Link]) -> tuple[str, ...]:
    """Return the devices that lead to the internet: those of the tunnels and of the default routes."""
    names = [*underlays_of(site), *(link.name for link in links.values() if link.default_routes)]
    return tuple(name for name in dict.fromkeys(names) if name in links)


def seen(table: str, sysctls: Iterable[str], routes: Iterable[str]) -> SeenHostEnd:
    return SeenHostEnd(_rules(table), {name: sysctl(name) or "" for name in sysctls}, frozenset(routes))


def _rules(table: str) -> str:
    try:
        return run(("nft", "list", "table", "inet", table)).out
    except HostError:  # there is no such table
        return ""


def routes_of(table: int) -> Iterator[tuple[Family, dict[str, Any]]]:
    for family in Family:
        try:
            rows = ip_rows(f"-{family.version}", "route", "show", "table", str(table))
        except HostError:  # there is no such table
            continue
        yield from ((family, row) for row in rows)


# The pair: before the bridge's ports, as a port needs its device


def pair(
    port: str, links: Mapping[str, Link], macs: tuple[str, str] | None = None, *, down: bool = False
) -> Iterator[Step]:
    """Yield the steps that make the pair, with its port down if the site's agent sets it up."""
    end, name = host_end(port), f"{port} pair"
    if port in links and end in links:
        yield Step(name, "present", "present")
        up: tuple[tuple[str, ...], ...] = () if links[end].up else (("ip", "link", "set", "dev", end, "up"),)
        yield Step(f"{end} link", "up" if links[end].up else "down", "up", up)
        return
    ours, theirs = ((), ()) if macs is None else (("address", macs[0]), ("address", macs[1]))
    ends = (port, end)
    commands: tuple[tuple[str, ...], ...] = (
        ("ip", "link", "add", port, *ours, "type", "veth", "peer", "name", end, *theirs),
        *(("ethtool", "-K", each, *OFF) for each in ends),
        ("sysctl", "--quiet", "--write", f"net/ipv6/conf/{port}/disable_ipv6=1"),
        *(("ip", "link", "set", "dev", each, "up") for each in (ends[1:] if down else ends)),
    )
    yield Step(name, "absent", "present", commands)


def address(end: str, own: Interface, links: Mapping[str, Link]) -> Step:
    there = end in links and own in links[end].addresses
    command = ("ip", "address", "replace", str(own), "dev", end, *(("nodad",) if own.version == 6 else ()))
    return Step(f"{end} {own}", "present" if there else "absent", "present", () if there else (command,))


# The host's settings: after the ports, as a port remembers what they were


def forwarding(families: Iterable[Family], inside: Iterable[str], onward: Iterable[str]) -> dict[str, str]:
    """Return the sysctls by which the host forwards between these devices."""
    wanted: dict[str, str] = {}
    for family in families:
        if family is Family.IPV4:
            wanted |= {f"net/ipv4/conf/{name}/forwarding": "1" for name in (*onward, *inside)}
            continue
        # A host that forwards ignores router advertisements unless this is 2.
        wanted |= {f"net/ipv6/conf/{name}/accept_ra": "2" for name in onward}
        wanted |= {f"net/ipv6/conf/{name}/disable_ipv6": "0" for name in inside}
        wanted["net/ipv6/conf/all/forwarding"] = "1"
    return wanted


def routing(
    what: str,
    table: str,
    rules: str,
    port: str,
    bridge: SeenBridge | None,
    sysctls: Mapping[str, str],
    found: SeenHostEnd,
) -> Iterator[Step]:
    """Yield the steps by which the host forwards and translates, NAT first.

    Conntrack never translates a flow whose first packet was forwarded before the rules were there.
    """
    yield _nat(f"{what} NAT", table, rules, found)
    yield _sysctls(f"{what} forwarding", port, bridge, sysctls, found)


def _sysctls(name: str, port: str, bridge: SeenBridge | None, wanted: Mapping[str, str], found: SeenHostEnd) -> Step:
    step = Step(name, "on", "on")
    wrong = {each: value for each, value in wanted.items() if found.sysctls[each] != value}
    if not wrong:
        return step
    set_before = dict(each.split("=") for each in _taken(port, bridge))
    before = {each: found.sysctls[each] for each in wrong if f"/{host_end(port)}/" not in each} | set_before
    remembered = " ".join(f"{each}={value}" for each, value in before.items())
    commands = (
        ovs_vsctl("set", "Interface", port, f'external_ids:{SYSCTLS}="{remembered}"'),
        ("sysctl", "--quiet", "--write", *(f"{each}={value}" for each, value in wrong.items())),
    )
    was = " ".join(f"{each}={found.sysctls[each] or 'none'}" for each in wrong)
    return replace(step, found=was, commands=commands)


def _taken(port: str, bridge: SeenBridge | None) -> tuple[str, ...]:
    """Return the sysctls that a port remembers, each with its value before."""
    row = bridge.port(port) if bridge else None
    return row.sysctls_taken if row else ()


def _nat(name: str, table: str, rules: str, found: SeenHostEnd) -> Step:
    wanted = "its rules"
    if found.table == rules:
        return Step(name, wanted, wanted)
    # In one transaction; a table that is not there cannot be deleted.
    command = ("nft", f"table inet {table}; delete table inet {table}; {_on_one_line(rules)}")
    return Step(name, "other rules" if found.table else "none", wanted, (command,))


def _on_one_line(rules: str) -> str:
    lines = (line.strip() for line in rules.splitlines() if line.strip())
    return " ".join(line if line.endswith(("{", ";")) else f"{line};" for line in lines)


# Undo


def removal(
    what: str, table: str, port: str, bridge: SeenBridge | None, links: Mapping[str, Link], found: SeenHostEnd
) -> Iterator[Step]:
    if taken := _taken(port, bridge):
        command = ("sysctl", "--quiet", "--write", *taken)
        yield Step(f"{what} forwarding", "on", " ".join(taken), (command,))
    if found.table:
        yield Step(f"{what} NAT", "present", "none", (("nft", "delete", "table", "inet", table),))
    if port in links:
        yield Step(f"{port} pair", "present", "absent", (("ip", "link", "delete", port),))
