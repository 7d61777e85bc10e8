# SPDX-License-Identifier: Apache-2.0
"""The facts of both machines: addresses, uplinks, the LAN, and the way to the Internet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, ip_address, ip_interface, ip_network
from pathlib import Path
from typing import Any

from controller.edges.config.document import INTERFACE, NAME
from gateway.checks import kernel
from gateway.host import HostError, ip_rows

MOST_UPLINKS = 8
LONGEST_NAME = 32
# 203.0.113.0/24 and the other networks of documentation are not in this list: examples and tests use them.
NOT_PUBLIC = tuple(
    map(ip_network, ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"))
)
OURS = re.compile(r"(tn|tf|ve)-")  # bicast's own devices
LAN_NETWORKS = tuple(ip_network(f"192.168.{number}.0/24") for number in range(8, 255))
BETWEEN_SITES = (ip_network("10.98.0.0/30"), ip_network("10.99.0.0/16"))


@dataclass(frozen=True, slots=True)
class Device:
    """An interface of this host."""

    name: str
    addresses: tuple[IPv4Interface, ...] = ()
    metric: int | None = None  # of its IPv4 default route; None: it has none
    physical: bool = True
    wireless: bool = False
    ethernet: bool = True
    master: str | None = None


def devices() -> tuple[Device, ...]:
    metrics: dict[str, int] = {}
    for route in ip_rows("-4", "route", "show", "default"):
        for hop in route.get("nexthops", [route]):
            name, metric = hop.get("dev", ""), int(route.get("metric", 0))
            metrics[name] = min(metric, metrics.get(name, metric))
    rows = ip_rows("-details", "address", "show")
    return tuple(_device(row, metrics.get(row["ifname"])) for row in rows if "LOOPBACK" not in row["flags"])


def _device(row: Mapping[str, Any], metric: int | None) -> Device:
    four = (each for each in row.get("addr_info", ()) if each.get("family") == "inet" and "local" in each)
    name = str(row["ifname"])
    return Device(
        name,
        tuple(IPv4Interface(f"{each['local']}/{each['prefixlen']}") for each in four),
        metric,
        physical="info_kind" not in row.get("linkinfo", {}),
        wireless=Path("/sys/class/net", name, "wireless").exists(),
        ethernet=row.get("link_type") == "ether",
        master=row.get("master"),
    )


def has_global_ipv6() -> bool:
    """Return whether this host has a default route and a global address of IPv6."""
    routes = ip_rows("-6", "route", "show", "default")
    rows = ip_rows("-6", "address", "show", "scope", "global")
    own = [ip_address(each["local"]) for row in rows for each in row.get("addr_info", ()) if "local" in each]
    return bool(routes) and any(each not in ip_network("fc00::/7") for each in own)


def datapath() -> str:
    """Return the best datapath of this kernel."""
    return "system" if kernel.able("genl", "ctrl", "get", "name", "ovs_datapath") else "netdev"


# The rented machine


def way_out(here: Sequence[Device], device: str | None) -> Device:
    """Return the device that the Internet reaches."""
    if device is not None:
        found = next((each for each in here if each.name == device), None)
        if found is None:
            raise HostError(f"this machine has no device {device}: expected one of {_names(here)}")
        return found
    routed = sorted((each for each in here if each.metric is not None), key=lambda each: each.metric or 0)
    if not routed:
        raise HostError("this machine has no default route: give the device that the Internet reaches with --device")
    return routed[0]


def public_address(device: Device, given: str | None) -> str:
    if given is not None:
        try:
            return str(IPv4Interface(given).ip) if "/" not in given else _no_address(given)
        except ValueError:
            return _no_address(given)
    for own in device.addresses:
        if not any(own.ip in network for network in NOT_PUBLIC):
            return str(own.ip)
    has = ", ".join(str(own.ip) for own in device.addresses) or "no IPv4 address"
    raise HostError(
        f"{device.name} has {has}, which is not public: with --address, give the address that your provider shows for "
        "this machine"
    )


def _no_address(given: str) -> str:
    raise HostError(f"--address {given} is not an IPv4 address: expected one such as 203.0.113.9")


def _names(those: Iterable[Device]) -> str:
    return ", ".join(each.name for each in those) or "none"


# Home


@dataclass(frozen=True, slots=True)
class HomeFacts:
    """The part of gateway.yaml that only home knows. `uplinks` maps names to devices, the preferred one first."""

    uplinks: tuple[tuple[str, str], ...]
    lan: str
    network: str  # home's address in the LAN, with its prefix length
    datapath: str

    def message(self) -> dict[str, Any]:
        return {"uplinks": self.uplinks, "lan": self.lan, "network": self.network, "datapath": self.datapath}


class Ambiguous(HostError):
    """A choice that only a person can make."""

    def __init__(self, sentence: str, options: tuple[str, ...]) -> None:
        super().__init__(sentence)
        self.options = options


def uplinks(here: Sequence[Device], given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return names and devices of home's uplinks: those given, or all with a default route in the order of metrics."""
    if given:
        found = tuple(_uplink(each, here) for each in given)
    else:
        routed = [each for each in here if each.metric is not None and not OURS.match(each.name)]
        routed.sort(key=lambda each: each.metric or 0)
        found = tuple((each.name.replace(":", "-").replace("@", "-"), each.name) for each in routed[:MOST_UPLINKS])
    if not found:
        raise HostError(
            "this machine has no default route: connect its uplinks, or name them with --uplink fibre=DEVICE"
        )
    for what, values in (("name", [name for name, _ in found]), ("device", [device for _, device in found])):
        twice = next((each for each in values if values.count(each) > 1), None)
        if twice:
            raise HostError(f"two uplinks have the {what} {twice}: give each its own")
    return found


def _uplink(given: str, here: Sequence[Device]) -> tuple[str, str]:
    name, equals, device = given.partition("=")
    device = device if equals else name
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise HostError(f"--uplink {given}: expected NAME=DEVICE, such as fibre=enp1s0")
    if device not in [each.name for each in here]:
        raise HostError(f"--uplink {given}: this machine has no device {device}: expected one of {_names(here)}")
    return name, device


def lan(here: Sequence[Device], chosen: Iterable[tuple[str, str]], given: str | None) -> str:
    """Return the device of home's LAN: the one given, or the only physical ethernet device that is left."""
    taken = {device for _, device in chosen}
    if given is not None:
        found = next((each for each in here if each.name == given), None)
        if found is None:
            raise HostError(f"--lan {given}: this machine has no such device: expected one of {_names(here)}")
        if given in taken:
            raise HostError(f"--lan {given}: this device is an uplink already: expected another one")
        return given
    left = tuple(
        each.name
        for each in here
        if each.physical and each.ethernet and not each.wireless and not each.master
        if each.metric is None and each.name not in taken and not OURS.match(each.name)
    )
    if len(left) == 1:
        return left[0]
    if left:
        raise Ambiguous(f"several devices can be the LAN ({', '.join(left)}): name one with --lan DEVICE", left)
    raise HostError("no ethernet device is left for the LAN: connect one, or name it with --lan DEVICE")


def lan_network(here: Sequence[Device], routed: Iterable[IPv4Network]) -> str:
    """Return an address in a network that no interface and no route of home uses."""
    used = [*(own.network for each in here for own in each.addresses), *routed]
    free = next((each for each in LAN_NETWORKS if not any(each.overlaps(other) for other in used)), None)
    if free is None:
        raise HostError("every network from 192.168.8.0/24 to 192.168.254.0/24 is in use here: free one of them")
    return f"{free[1]}/{free.prefixlen}"


def routed_networks() -> list[IPv4Network]:
    routes = ip_rows("-4", "route", "show")
    return [IPv4Network(each["dst"]) for each in routes if each.get("dst", "default") != "default"]


def home_facts(message: Mapping[str, Any]) -> HomeFacts:
    """Return the facts in a message of another machine. Anything unexpected in it is refused."""
    pairs, device, network, path = (message.get(key) for key in ("uplinks", "lan", "network", "datapath"))
    if not isinstance(pairs, list) or not 1 <= len(pairs) <= MOST_UPLINKS:
        raise _refused("uplinks", f"a list of 1 to {MOST_UPLINKS} names and devices")
    found = tuple(_pair(each) for each in pairs)
    devices_there = [each for _, each in found]
    names = [name for name, _ in found]
    if len(set(names)) != len(found) or len(set(devices_there)) != len(found):
        raise _refused("uplinks", "each name and device once")
    if not isinstance(device, str) or not INTERFACE.fullmatch(device) or device in devices_there:
        raise _refused("lan", "the name of another interface")
    if path not in ("system", "netdev"):
        raise _refused("datapath", "system or netdev")
    return HomeFacts(found, device, _own_network(network), str(path))


def _pair(each: object) -> tuple[str, str]:
    if isinstance(each, list) and len(each) == 2 and all(isinstance(part, str) for part in each):
        name, device = each
        if NAME.fullmatch(name) and len(name) <= LONGEST_NAME and INTERFACE.fullmatch(device):
            return name, device
    raise _refused("uplinks", "a name and a device for each")


def _own_network(network: object) -> str:
    try:
        own = ip_interface(network) if isinstance(network, str) and "/" in network else None
    except ValueError:
        own = None
    private = [each for each in NOT_PUBLIC if str(each) in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
    if (
        not isinstance(own, IPv4Interface)
        or not 16 <= own.network.prefixlen <= 28
        or not any(own.ip in each for each in private)
        or own.ip in (own.network.network_address, own.network.broadcast_address)
        or any(own.network.overlaps(each) for each in BETWEEN_SITES)
    ):
        raise _refused("network", "a private address with its prefix length, such as 192.168.8.1/24")
    return str(own)


def _refused(what: str, expected: str) -> HostError:
    return HostError(f"home sent no usable `{what}`: expected {expected}; both machines need the same bicast version")
