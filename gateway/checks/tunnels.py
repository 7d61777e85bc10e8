# SPDX-License-Identifier: Apache-2.0
"""The needs of tunnels: kernel support, a route to the other end, and accepted replies.

Without `device` a tunnel sends by the host's routes and receives on any interface.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from controller.model.config import Site
from controller.model.uplink import Tunnel, Uplink
from gateway import links
from gateway.checks.kernel import KERNEL, able
from gateway.checks.sysctls import STRICT, effective_rp_filter
from gateway.finding import Finding, State, judged
from gateway.host import HostError, run
from gateway.ports import MERGING, tunnels_of, underlays_of
from gateway.scene import CheckContext

ELSEWHERE = "in another network namespace, like the agent"
MARK = "bicast-tunnel "  # alias prefix set by agent/tunnel/device.go
NFT_OF_TUNNELS = "table inet t { chain c { type filter hook input priority 0; udp dport 4789 @th,96,24 1 drop; }; }"


def tunnels(context: CheckContext) -> Iterator[tuple[Site, Uplink, Tunnel]]:
    for site in context.sites:
        for uplink in site.uplinks:
            if uplink.tunnel:
                yield site, uplink, uplink.tunnel


def kernel(context: CheckContext) -> Iterator[Finding]:
    if not any(tunnels(context)):
        return
    for name, command in (
        ("VXLAN", ("ip", "link", "add", "type", "vxlan", "id", "1", "dstport", "4789")),
        ("nft on VXLAN", ("nft", NFT_OF_TUNNELS)),
    ):
        can = able(*command)
        yield judged(f"kernel {name}", can, "yes" if can else "no", f"yes, for tunnels: {KERNEL}", else_=State.BAD)


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


def merging(context: CheckContext) -> Iterator[Finding]:
    """Check merging (GRO) without `device`; otherwise `bridge` turns it off."""
    for site in context.sites:
        nowhere = [uplink for uplink in site.uplinks if uplink.tunnel and not uplink.tunnel.device]
        if not nowhere:
            continue
        merges = {name: [each for each in links.offloads(name).on if each in MERGING] for name in _ways_in(context)}
        on = {name: features for name, features in merges.items() if features}
        names = " and ".join(uplink.port for uplink in nowhere)
        yield judged(
            f"{site.name} merging",
            not on,
            f"on at {', '.join(on)}" if on else "off",
            f"off where {names} arrive: merged packets are too long for a userspace datapath, and their copies cannot "
            "be identified; with `device: NAME` in their uplinks, `bridge` turns it off and restores it at the end",
            " && ".join(
                f"ethtool -K {name} {' '.join(f'{each} off' for each in each_on)}" for name, each_on in on.items()
            )
            or None,
            else_=State.WARNING,
        )


def _ways_in(context: CheckContext) -> list[str]:
    return [name for name, link in context.links.items() if link.default_routes and name not in context.ports]


def taken(context: CheckContext) -> Iterator[Finding]:
    """Check the UDP ports. A kernel socket belongs to another VXLAN device; several with other VNIs may exist."""
    for number in dict.fromkeys(tunnel.udp_port for _, _, tunnel in tunnels(context)):
        yield _port_taken(number)
    sites = context.config.sites if context.config else context.sites
    ours = {port for site in sites for port in tunnels_of(site)}  # both ends use the same port
    others = [link for link in _vxlan() if link["ifname"] not in ours]
    for _, uplink, tunnel in tunnels(context):
        for link in others:
            data = link["linkinfo"]["info_data"]
            if (data.get("id"), data.get("port")) != (tunnel.vni, tunnel.udp_port):
                continue
            name, numbers = f"{uplink.port} number", f"VNI {tunnel.vni} and UDP port {tunnel.udp_port}"
            expected = f"used by {uplink.port} only: "
            if link.get("ifalias", "").startswith(MARK):
                found = f"{link['ifname']}, created by an agent, has {numbers}"
                expected += "its agent removes devices that its file no longer lists; or give the site another dpid"
                yield Finding(name, State.WARNING, found, expected)
            else:
                expected += "give the site another dpid, or that device another VNI"
                found = f"{link['ifname']} has {numbers}"
                yield Finding(name, State.BAD, found, expected, f"ip link del {link['ifname']}")


def _vxlan() -> list[dict[str, Any]]:
    links: list[dict[str, Any]] = json.loads(
        run(("ip", "-json", "-details", "link", "show", "type", "vxlan")).out or "[]"
    )
    return links


def _port_taken(number: int) -> Finding:
    name, expected = f"UDP port {number}", "free, or the kernel's, for VXLAN"
    for line in run(("ss", "-Hlunp", "sport", "=", f":{number}")).out.splitlines():
        if process := re.search(r"pid=(\d+)", line):
            pid = int(process[1])
            shown = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
            found = f"in use by process {pid}, {shown}"
            return Finding(name, State.BAD, found, f"{expected}; or write another `udp_port`", f"kill {pid}")
    return Finding(name, State.OK, "no process uses it", expected)


def _devices(context: CheckContext) -> tuple[str, ...]:
    return tuple(dict.fromkeys(device for site in context.sites for device in underlays_of(site)))
