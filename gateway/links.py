# SPDX-License-Identifier: Apache-2.0
"""This host's interfaces."""

from __future__ import annotations

import os
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_interface

from gateway.host import ip_rows, run

# ethtool -k names. A userspace datapath must not meet these: they exceed the MTU or leave checksums to the hardware.
OFFLOADS = {
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "large-receive-offload": "lro",
    "rx-gro-hw": "rx-gro-hw",
    "tx-checksumming": "tx",
    "rx-checksumming": "rx",
}


@dataclass(frozen=True, slots=True)
class Link:
    name: str
    up: bool
    promiscuous: bool  # set by a userspace datapath on its ports
    mtu: int
    addresses: tuple[IPv4Interface | IPv6Interface, ...]  # without link-local, which all have
    master: str | None  # its bridge or bond
    default_routes: tuple[str, ...]  # next hops; "": on-link
    ssh: bool  # an ssh session uses an address

    @property
    def carries(self) -> str:
        reasons = [", ".join(str(address) for address in self.addresses)] if self.addresses else []
        if self.default_routes:
            reasons.append("this host's default route")
        if self.ssh:
            reasons.append("an ssh session")
        return " and ".join(reasons)


@dataclass(frozen=True, slots=True)
class Offloads:
    on: tuple[str, ...]
    stuck: tuple[str, ...]  # on, and fixed by the driver


def read() -> tuple[Link, ...]:
    sessions = _ssh_addresses()
    routes: dict[str, list[str]] = {}
    for family in ("-4", "-6"):
        for route in ip_rows(family, "route", "show", "default"):
            # one device per next hop
            for hop in route.get("nexthops", [route]):
                routes.setdefault(hop.get("dev", ""), []).append(hop.get("gateway", ""))
    return tuple(_link(row, tuple(routes.get(row["ifname"], ())), sessions) for row in ip_rows("address", "show"))


def offloads(name: str) -> Offloads:
    on: list[str] = []
    stuck: list[str] = []
    for line in run(("ethtool", "-k", name)).out.splitlines():
        feature, _, value = line.partition(": ")
        if feature in OFFLOADS and value.startswith("on"):
            (stuck if "[fixed]" in value else on).append(OFFLOADS[feature])
    return Offloads(tuple(on), tuple(stuck))


def _link(row: dict[str, object], routes: tuple[str, ...], sessions: frozenset[str]) -> Link:
    infos = row.get("addr_info")
    addresses = tuple(
        ip_interface(f"{info['local']}/{info['prefixlen']}")
        for info in (infos if isinstance(infos, list) else [])
        if "local" in info and info["scope"] != "link"
    )
    flags = row["flags"] if isinstance(row["flags"], list) else []
    master = row.get("master")
    return Link(
        name=str(row["ifname"]),
        up="UP" in flags,
        promiscuous="PROMISC" in flags,
        mtu=int(str(row["mtu"])),
        addresses=addresses,
        master=str(master) if master else None,
        default_routes=routes,
        ssh=any(str(address.ip) in sessions for address in addresses),
    )


def _ssh_addresses() -> frozenset[str]:
    """Return the local addresses of ssh sessions. sudo removes SSH_CONNECTION, so sockets are read too."""
    ends = set()
    own = os.environ.get("SSH_CONNECTION", "").split()
    if len(own) == 4:
        ends.add(own[2])
    for line in run(("ss", "-Htn", "state", "established", "sport", "=", ":22")).out.splitlines():
        local = line.split()[2].rpartition(":")[0]
        ends.add(local.strip("[]").partition("%")[0].removeprefix("::ffff:"))
    return frozenset(ends)
