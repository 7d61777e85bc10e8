# SPDX-License-Identifier: Apache-2.0
"""The needs of tunnels: kernel support, a route to the other end, and accepted replies.

Without `device` a tunnel sends by the host's routes and receives on any interface.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from controller.model.config import Site
from controller.model.uplink import Tunnel, Uplink
from gateway.checks.kernel import KERNEL, able
from gateway.checks.sysctls import STRICT, effective_rp_filter
from gateway.finding import Finding, State, judged
from gateway.host import HostError, run
from gateway.ports import underlays_of
from gateway.scene import CheckContext

ELSEWHERE = "in another network namespace, like the agent"
AGENT = "bicast-agent"
TUN = Path("/dev/net/tun")
IPV6_SOCKET = "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)"


def tunnels(context: CheckContext) -> Iterator[tuple[Site, Uplink, Tunnel]]:
    for site in context.sites:
        for uplink in site.uplinks:
            if uplink.tunnel:
                yield site, uplink, uplink.tunnel


def kernel(context: CheckContext) -> Iterator[Finding]:
    if not any(tunnels(context)):
        return
    can = able("ip", "link", "add", "type", "vxlan", "id", "1", "dstport", "890")
    yield judged("kernel VXLAN", can, "yes" if can else "no", f"yes, for tunnels: {KERNEL}", else_=State.BAD)
    has = able(sys.executable, "-c", IPV6_SOCKET)
    expected = "yes, inside tunnels, also where no network has it: take ipv6.disable=1 off the kernel's command line"
    yield judged("kernel IPv6", has, "yes" if has else "no", expected, else_=State.BAD)
    if able("ip", "link", "add", "type", "wireguard"):
        yield Finding("kernel WireGuard", State.OK, "yes", "for tunnels")
    else:
        expected = f"yes (modprobe wireguard), or {TUN}: the agent then encrypts by itself, at more cost (modprobe tun)"
        found = f"no, but {TUN} is there" if TUN.exists() else "no"
        yield Finding("kernel WireGuard", State.WARNING if TUN.exists() else State.BAD, found, expected)


def underlays(context: CheckContext) -> Iterator[Finding]:
    elsewhere = {link["ifname"] for link in _vxlan() if "link_netnsid" in link}
    for site in context.sites:
        for device, port in underlays_of(site).items():
            link = context.links.get(device)
            found = "not there" if link is None else "up" if link.up else "down"
            if link is None and port in elsewhere:
                found = ELSEWHERE
            line = f"ip link set dev {device} up" if found == "down" else None
            expected = "present and up: tunnels use it (`ip -brief link` lists interfaces)"
            yield judged(f"{device} underlay", found in ("up", ELSEWHERE), found, expected, line, else_=State.BAD)


def apart(context: CheckContext) -> Iterator[Finding]:
    """Check the end that starts. At an end that learns its peer, one device may receive all tunnels."""
    for site in context.sites:
        ways: dict[tuple[object, ...], list[str]] = {}
        for uplink in site.uplinks:
            if uplink.tunnel and uplink.tunnel.remote:
                ways.setdefault((uplink.tunnel.device, uplink.tunnel.remote), []).append(uplink.name)
        for (device, remote), names in ways.items():
            if len(names) > 1:
                by = device or f"whichever device has the best route to {remote}"
                yield Finding(
                    f"{site.name} {' and '.join(names)}",
                    State.WARNING,
                    f"use one device, {by}",
                    "a different `device` in each uplink: on one device all copies are lost together",
                )


def routes(context: CheckContext) -> Iterator[Finding]:
    for _, uplink, tunnel in tunnels(context):
        if tunnel.remote is None or (tunnel.device and tunnel.device not in context.links):
            continue
        by = f" over {tunnel.device}" if tunnel.device else ""
        there = _has_route(tunnel)
        line = f"ip route add default via ITS-ROUTER dev {tunnel.device} metric 200" if tunnel.device else None
        expected = f"a route to {tunnel.remote}{by}, for example from DHCP; it need not be the preferred one" + (
            f" ({line})" if line else ""
        )
        yield judged(
            f"{uplink.port} route",
            there,
            "there" if there else f"none to {tunnel.remote}{by}",
            expected,
            else_=State.BAD,
        )


def _has_route(tunnel: Tunnel) -> bool:
    """Return whether a route exists. `ip route get` with a device always finds one: it assumes an on-link peer."""
    family = f"-{tunnel.remote.version}" if tunnel.remote else "-4"
    if tunnel.device is None:
        try:
            run(("ip", family, "route", "get", str(tunnel.remote)))
        except HostError:
            return False
        return True
    output = run(
        ("ip", "-json", family, "route", "show", "table", "all", "match", str(tunnel.remote), "dev", tunnel.device)
    )
    return any(each.get("type", "unicast") == "unicast" for each in json.loads(output.out or "[]"))


def rp_filter(context: CheckContext) -> Iterator[Finding]:
    """Check rp_filter. If it is strict, only the device of the best route accepts packets from the other end."""
    for device in (each for each in _devices(context) if each in context.links):
        value = effective_rp_filter(device)
        line = f"sysctl -w net/ipv4/conf/all/rp_filter=0 net/ipv4/conf/{device}/rp_filter=2"
        expected = (
            "0 or 2: with 1 the kernel drops packets from the tunnel's other end while its best route uses "
            "another device"
        )
        yield judged(f"rp_filter {device}", value != STRICT, value, expected, line, else_=State.BAD)


def taken(context: CheckContext) -> Iterator[Finding]:
    """Check the UDP ports. They may belong to the agent, or to the kernel's WireGuard."""
    for number in dict.fromkeys(tunnel.udp_port for _, _, tunnel in tunnels(context)):
        yield _port_taken(number)


def _vxlan() -> list[dict[str, Any]]:
    links: list[dict[str, Any]] = json.loads(
        run(("ip", "-json", "-details", "link", "show", "type", "vxlan")).out or "[]"
    )
    return links


def _port_taken(number: int) -> Finding:
    name, expected = f"UDP port {number}", "free, or the agent's, or WireGuard's in the kernel"
    for line in run(("ss", "-Hlunp", "sport", "=", f":{number}")).out.splitlines():
        if process := re.search(r"pid=(\d+)", line):
            pid = int(process[1])
            shown = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
            if Path(shown.split(" ", 1)[0]).name == AGENT:
                break
            found = f"in use by process {pid}, {shown}"
            return Finding(name, State.BAD, found, f"{expected}; or write another `udp_port`", f"kill {pid}")
    return Finding(name, State.OK, "no process uses it", expected)


def _devices(context: CheckContext) -> tuple[str, ...]:
    return tuple(dict.fromkeys(device for site in context.sites for device in underlays_of(site)))
