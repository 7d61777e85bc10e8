# SPDX-License-Identifier: Apache-2.0
"""Mininet nodes that configure themselves.

All setup is in config() and start(), so that `mn --custom` builds the same topology.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface
from typing import Any

from mininet.node import Node, OVSSwitch

from gateway import sending
from lab.stage import command, ovs
from lab.stage.command import Done

MAX_BACKOFF_MS = 1000  # OVS's minimum
# packets/s, as `bicast bridge` sets them (gateway/plan.py)
RATE_LIMIT = ("controller_rate_limit=1000", "controller_burst_limit=250")
# One receive window spans an MPTCP connection's subflows: the fast path's data waits there for losses of the slow one.
# With the kernel's initial 128 KiB, a download over Wi-Fi and LTE runs at a third of its rate for a second.
RECEIVE_BUFFER_SYSCTL = "net.ipv4.tcp_rmem=4096 4194304 6291456"


@dataclass(frozen=True, slots=True)
class Route:
    """`ip route` words; an `ip rule` for `source` selects a `table` other than main."""

    to: str
    via: str
    table: int | None = None
    source: str | None = None
    congestion_control: str | None = None
    metric: int | None = None  # preference among default routes


@dataclass(frozen=True, slots=True)
class SubflowEndpoint:
    """An address for MPTCP subflows; a `backup` idles until the others fail."""

    address: str
    device: str
    backup: bool = False


class Machine(Node):  # type: ignore[misc]  # Mininet is untyped
    """A host or router in its own network namespace.

    addresses   interface name -> ("192.168.110.3/24", "fd00:110::3/64", ...)
    routes      Route values
    forwards    whether it is a router
    endpoints   MPTCP SubflowEndpoint values; without any, it still accepts subflows
    bridge      interfaces of one layer 2 segment (an access point)
    """

    pid: int
    name: str

    def run(self, *argv: str, given: str | None = None, timeout_s: float | None = None, check: bool = True) -> Done:
        return command.run(*argv, where=self.name, prefix=self._prefix(), given=given, timeout_s=timeout_s, check=check)

    def popen(self, *args: Any, **options: Any) -> subprocess.Popen[Any]:
        """Start a program here; pass words, a list or a string, as for subprocess.Popen."""
        started: subprocess.Popen[Any] = super().popen(*args, **options)
        return started

    def _prefix(self) -> Sequence[str]:
        return ("mnexec", "-a", str(self.pid))

    def config(
        self,
        addresses: Mapping[str, Sequence[str]] | None = None,
        routes: Sequence[Route] = (),
        forwards: bool = False,
        endpoints: Sequence[SubflowEndpoint] = (),
        bridge: Sequence[str] = (),
        **_others: Any,
    ) -> None:
        addresses = addresses or {}
        self.run("ip", "link", "set", "lo", "up")
        self._sysctls(forwards)
        if bridge:
            self._bridge(bridge)
        for device, own in addresses.items():
            for address in own:
                self._assign(device, address)
        for route in routes:
            self._route(route)
        self.run("ip", "mptcp", "limits", "set", "subflows", "8", "add_addr_accepted", "0")
        if len(endpoints) > 1:
            self.run("sysctl", "--quiet", "--write", RECEIVE_BUFFER_SYSCTL)
        for number, endpoint in enumerate(endpoints, 1):
            flags = ("subflow", "backup") if endpoint.backup else ("subflow",)
            place = (endpoint.address, "dev", endpoint.device)
            self.run("ip", "mptcp", "endpoint", "add", *place, "id", str(number), *flags)

    def _assign(self, device: str, address: str) -> None:
        if ip_interface(address).version == 4:
            self.run("ip", "address", "add", address, "dev", device)
            return
        # IPv6 is off where a bridge's devices were, and maybe by default.
        self.run("sysctl", "--quiet", "--write", f"net.ipv6.conf.{device}.disable_ipv6=0")
        # Without duplicate address detection, addresses work at once.
        self.run("ip", "address", "add", address, "dev", device, "nodad")

    def _sysctls(self, forwards: bool) -> None:
        # Copies arrive on another interface than the route's. The kernel uses the larger of `all` and the interface's.
        loose = [f"net.ipv4.conf.{name}.rp_filter=0" for name in ("all", "default", *self.intfNames())]
        both = [f"net.ipv4.ip_forward={int(forwards)}", f"net.ipv6.conf.all.forwarding={int(forwards)}"]
        # Lost SYNs must not turn MPTCP off for an hour (blackhole detection). Nor must three in a row for the
        # connection: with 10 % loss up and 5 % down that is one connection in 330.
        asked_for = ["net.mptcp.syn_retrans_before_tcp_fallback=6"]
        mptcp = ["net.mptcp.enabled=1", "net.mptcp.blackhole_timeout=0", *asked_for]
        self.run("sysctl", "--quiet", "--ignore", "--write", *loose, *both, *mptcp)

    def _bridge(self, members: Sequence[str]) -> None:
        self.run("ip", "link", "add", "segment", "type", "bridge")
        for member in members:
            self.run("ip", "link", "set", member, "master", "segment", "up")
        self.run("ip", "link", "set", "segment", "up")

    def _route(self, route: Route) -> None:
        family = "-6" if ":" in route.via else "-4"
        words = ["ip", family, "route", "replace", route.to, "via", route.via]
        if route.congestion_control is not None:
            words += ["congctl", "lock", route.congestion_control]
        if route.metric is not None:
            words += ["metric", str(route.metric)]
        if route.table is not None:
            words += ["table", str(route.table)]
        self.run(*words)
        if route.source is not None:
            table = str(route.table)
            self.run("ip", family, "rule", "add", "from", route.source, "table", table, "priority", table)


DEAF_TABLE = "netdev deaf"


class Gateway(OVSSwitch):  # type: ignore[misc]  # Mininet is untyped
    """A bridge of the private Open vSwitch: userspace datapath, fail_mode secure, the topology's port numbers.

    In the world's root network namespace it reaches a controller at 127.0.0.1. `late_ports` maps ports, whose devices
    are made later, to numbers. With `own_terminals` a terminal's addresses are in the same namespace: Linux would take
    its packets from the uplinks, beside Open vSwitch, and must not.
    """

    name: str

    def __init__(
        self, name: str, late_ports: Mapping[str, int] | None = None, own_terminals: bool = False, **options: Any
    ) -> None:
        self._late_ports = late_ports or {}
        self._own_terminals = own_terminals
        options |= {"datapath": "user", "failMode": "secure", "protocols": "OpenFlow13", "batch": False}
        super().__init__(name, **options)

    @classmethod
    def setup(cls) -> None:
        if not ovs.running():
            raise command.CommandFailed("there is no private Open vSwitch; start one with lab.stage.ovs.PrivateOvs")
        cls.OVSVersion = re.findall(r"\d+\.\d+", ovs.vsctl("--version"))[0]

    def run(self, *argv: str, given: str | None = None, timeout_s: float | None = None, check: bool = True) -> Done:
        return command.run(*argv, where=self.name, given=given, timeout_s=timeout_s, check=check)

    def popen(self, *args: Any, **options: Any) -> subprocess.Popen[Any]:
        started: subprocess.Popen[Any] = super().popen(*args, **options)
        return started

    def start(self, controllers: Sequence[Any]) -> None:
        words = ["add-br", self.name, "--", "set", "Bridge", self.name, "datapath_type=netdev", "fail_mode=secure"]
        self.silence_linux()
        words += ["protocols=OpenFlow13", f"other_config:datapath-id={self.dpid}", "other_config:disable-in-band=true"]
        for interface in self.intfList():
            if interface.name != "lo":
                words += self._port(interface.name, self.ports[interface])
        for name, number in self._late_ports.items():
            words += self._port(name, number)
        if self._own_terminals:
            devices = ", ".join(f'"{interface.name}"' for interface in self.intfList() if interface.name != "lo")
            hook = f"type filter hook ingress devices = {{ {devices} }} priority 0; policy drop;"
            self.run("nft", f"table {DEAF_TABLE} {{ chain ingress {{ {hook} }}; }}")
        ovs.vsctl(*words)
        if any(interface.name != "lo" for interface in self.intfList()):
            sending.widen(self.name)  # as `bicast bridge` does once there is a port
        self.connect(*(f"{each.protocol}:{each.IP()}:{each.port}" for each in controllers))

    def silence_linux(self) -> None:
        """Stop Linux from sending IPv6 or forwarding on the bridge's ports."""
        names = [interface.name for interface in self.intfList() if interface.name != "lo"]
        if self._late_ports:
            names.append("default")
        silent = [f"net.ipv6.conf.{name}.disable_ipv6=1" for name in names]
        self.run("sysctl", "--quiet", "--write", *silent, *(f"net.ipv4.conf.{name}.forwarding=0" for name in names))

    def _port(self, name: str, number: int) -> list[str]:
        # With linux-noop OVS keeps a reconfigured port's qdisc.
        return [
            "--", "add-port", self.name, name,
            "--", "set", "Interface", name, f"ofport_request={number}",
            "--", f"--id=@{name}-qos", "create", "QoS", "type=linux-noop",
            "--", "set", "Port", name, f"qos=@{name}-qos",
        ]  # fmt: skip

    def connect(self, *targets: str) -> None:
        if not targets:
            ovs.vsctl("del-controller", self.name)
            return
        ovs.vsctl("set-controller", self.name, *targets)
        for record in ovs.vsctl("get", "Bridge", self.name, "controller").strip("[]\n").split(", "):
            ovs.vsctl("set", "Controller", record, f"max_backoff={MAX_BACKOFF_MS}", *RATE_LIMIT)

    def stop(self, deleteIntfs: bool = True) -> None:  # Mininet's name
        # A dead switch does not answer; --no-wait does not wait.
        self.run(
            "ovs-vsctl", "--no-wait", f"--timeout={ovs.PATIENCE_S}", "--if-exists", "del-br", self.name, check=False
        )
        if self._own_terminals:
            self.run("nft", "delete", "table", *DEAF_TABLE.split(), check=False)
        if deleteIntfs:
            self.deleteIntfs(checkName=False)

    @classmethod
    def batchStartup(cls, switches: Sequence[Gateway], **_options: Any) -> Sequence[Gateway]:
        return switches

    @classmethod
    def batchShutdown(cls, switches: Sequence[Gateway], **_options: Any) -> Sequence[Gateway]:
        """Return nothing: each switch stops on its own."""
        return ()


NAT_TABLE = "translation"
ICMP_FILTER_TABLE = "silence"


class Nat(Machine):
    """A router that masquerades, with random ports, what leaves by its device `outside`.

    addresses, routes   as for Machine
    outside             a device with one address and the default route
    translates          whether NAT is on at the start
    """

    def config(self, *given: Any, outside: str = "out", translates: bool = True, **machine: Any) -> None:
        super().config(*given, **{**machine, "forwards": True})
        self._outside = outside
        self._address = machine["addresses"][outside][0]
        self._routes = machine.get("routes", ())
        if translates:
            self.translate()

    def translate(self) -> None:
        rule = f'type nat hook postrouting priority srcnat; oifname "{self._outside}" masquerade fully-random'
        self.run("nft", "-f", "-", given=f"table ip {NAT_TABLE} {{ chain leaving {{ {rule}; }}; }}\n")

    def stop_translating(self) -> None:
        """Stop NAT for new connections. Existing mappings last until they time out."""
        self.run("nft", "delete", "table", "ip", NAT_TABLE)

    def redial(self, address: str | None = None) -> None:
        """Drop all mappings and take another outer address (like 198.51.100.77/24), or the same again.

        The kernel drops a removed address's mappings.
        """
        new = address or self._address
        lines = [f"address del {self._address} dev {self._outside}", f"address add {new} dev {self._outside}"]
        lines += [f"route replace {route.to} via {route.via}" for route in self._routes]
        self.run("ip", "-batch", "-", given="\n".join(lines) + "\n")
        self._address = new

    def limit_mtu(self, device: str, mtu: int) -> None:
        """Limit the MTU of a device. Longer packets are dropped without ICMP errors."""
        types = ("icmp type destination-unreachable icmp code frag-needed", "icmpv6 type packet-too-big")
        drops = "\n".join(f"{each} drop" for each in types)
        chain = f"chain out {{ type filter hook output priority 0;\n{drops}\n}}"
        self.run("nft", "-f", "-", given=f"table inet {ICMP_FILTER_TABLE} {{ {chain}\n}}\n")
        self.run("ip", "link", "set", device, "mtu", str(mtu))

    def restore_mtu(self, device: str, mtu: int) -> None:
        self.run("ip", "link", "set", device, "mtu", str(mtu))
        self.run("nft", "delete", "table", "inet", ICMP_FILTER_TABLE)
