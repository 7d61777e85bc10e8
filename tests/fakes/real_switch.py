# SPDX-License-Identifier: Apache-2.0
"""A real Open vSwitch with the interface of the fake one: it compiles a program and traces packets.

Its ports are dummies and need no devices: packets are traced (ofproto/trace), never sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from controller.program.diff import (
    AddFlow,
    AddGroup,
    AddMeter,
    Change,
    DeleteFlow,
    DeleteGroup,
    DeleteMeter,
    ModifyFlow,
    ModifyGroup,
    ModifyMeter,
)
from controller.program.program import Program
from controller.program.render import Renderer
from lab.stage.command import CommandFailed, run
from tests.fakes.packet import Packet
from tests.fakes.pipeline import PacketOutcome, SentPacket

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
WRITE = Renderer()
TRACED = {
    "ipv4_src": "ip_src",
    "ipv4_dst": "ip_dst",
    "icmpv4_type": "icmp_type",
    "icmpv4_code": "icmp_code",
    "ipv6_nd_target": "nd_target",
    "ipv6_nd_sll": "nd_sll",
    "ipv6_nd_tll": "nd_tll",
    "icmpv6_nd_options_type": "nd_options_type",
    "icmpv6_nd_reserved": "nd_reserved",
}
SET = {  # the datapath's names of the fields that a program may set
    "eth": {"src": "eth_src", "dst": "eth_dst"},
    "ipv4": {"src": "ipv4_src", "dst": "ipv4_dst", "ttl": "nw_ttl"},
    "ipv6": {"src": "ipv6_src", "dst": "ipv6_dst", "hlimit": "nw_ttl"},
    "tcp": {"src": "tcp_src", "dst": "tcp_dst"},
    "udp": {"src": "udp_src", "dst": "udp_dst"},
    "icmp": {"type": "icmpv4_type", "code": "icmpv4_code"},
    "icmpv6": {"type": "icmpv6_type", "code": "icmpv6_code"},
    "nd": {"target": "ipv6_nd_target", "sll": "ipv6_nd_sll", "tll": "ipv6_nd_tll"},
    "arp": {"sip": "arp_spa", "tip": "arp_tpa", "op": "arp_op", "sha": "arp_sha", "tha": "arp_tha"},
}
LIFE_ENDED = "reason=2"  # OFPR_INVALID_TTL: shown to controllers that ask for it, and ours does not


class RealSwitch:
    """`with RealSwitch(directory, live=(1, 2), down=(3,)) as real:` holds one bridge with these ports."""

    def __init__(self, directory: Path, live: tuple[int, ...], down: tuple[int, ...]) -> None:
        self.directory = directory
        self.live = live
        self.down = down
        self.numbers: dict[str, int] = {}  # OpenFlow ports by the datapath's port numbers

    def __enter__(self) -> Self:
        database = f"unix:{self.directory}/db.sock"
        self._run("ovsdb-tool", "create", f"{self.directory}/conf.db", SCHEMA)
        self._daemon("ovsdb-server", f"--remote=p{database}", f"{self.directory}/conf.db")
        self._daemon("ovs-vswitchd", "--enable-dummy", database)
        vsctl = ["ovs-vsctl", f"--db={database}", "add-br", "br", "--"]
        vsctl += ["set", "bridge", "br", "datapath_type=dummy", "fail_mode=secure", "protocols=OpenFlow13"]
        for number in (*self.live, *self.down):
            vsctl += ["--", "add-port", "br", f"p{number}"]
            vsctl += ["--", "set", "interface", f"p{number}", "type=dummy", f"ofport_request={number}"]
        self._run(*vsctl)
        for number in self.down:
            self._appctl("netdev-dummy/set-admin-state", f"p{number}", "down")
        while self._ofctl("dump-ports-desc").count("LINK_DOWN") < len(self.down):
            pass  # each question waits for one round of the switch's main loop
        for ours, its in re.findall(r"p\d+ (\d+)/(\d+):", self._appctl("dpif/show")):
            self.numbers[its] = int(ours)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._appctl("exit", "--cleanup")
        self._run("ovs-appctl", "-t", f"{self.directory}/ovsdb-server.ctl", "exit")

    def load(self, program: Program) -> None:
        self.clear()
        for meter in program.meters.values():
            self._ofctl("add-meter", WRITE.meter(meter))
        groups = [f"group add {WRITE.group(group)}" for group in program.groups.values()]
        flows = [f"flow add {WRITE.flow(flow)}" for flow in program.flows.values()]
        self._ofctl("bundle", "-", given="\n".join((*groups, *flows)))

    def clear(self) -> None:
        self._ofctl("bundle", "-", given="flow delete\ngroup delete group_id=all")
        self._ofctl("del-meters")

    def takes(self, change: Change) -> bool:
        """Make the change. Return False if the switch refuses it."""
        try:
            self._change(change)
        except CommandFailed:
            return False
        return True

    def held(self) -> tuple[int, set[int]]:
        """Return the number of flows and the ids of groups."""
        (flows,) = re.findall(r"flow_count=(\d+)", self._ofctl("dump-aggregate"))
        return int(flows), {int(each) for each in re.findall(r"group_id=(\d+)", self._ofctl("dump-groups"))}

    def send(self, packet: Packet, in_port: int) -> PacketOutcome:
        headers = {name: value for name, value in packet.headers.items() if name != "eth_type"}
        spec = f"in_port={in_port},eth_type={packet.eth_type:#06x}"
        spec += "".join(f",{TRACED.get(name, name)}={value}" for name, value in headers.items())
        (actions,) = re.findall(r"^Datapath actions: (.*)$", self._appctl("ofproto/trace", "br", spec), re.MULTILINE)
        return self._executed(actions, packet)

    def _executed(self, actions: str, packet: Packet) -> PacketOutcome:
        """Return the outcome of the datapath's actions. Packets to a port that is down are lost."""
        sent, punted = [], []
        for action in _split(actions):
            name, _, inner = action.partition("(")
            if name in self.numbers:
                sent.append(SentPacket(self.numbers[name], packet))
            elif name == "set":
                packet = _set(packet, inner.removesuffix(")"))
            elif name == "userspace" and LIFE_ENDED not in inner:
                punted.append(packet)
            elif name not in ("userspace", "meter", "drop"):
                raise ValueError(f"the datapath does what no program asked for: {action} in {actions}")
        return PacketOutcome(tuple(each for each in sent if each.port not in self.down), tuple(punted))

    def _change(self, change: Change) -> None:
        match change:
            case AddFlow(flow):
                self._ofctl("add-flow", WRITE.flow(flow))
            case ModifyFlow(flow):
                self._ofctl("mod-flows", "--strict", WRITE.flow(flow))
            case DeleteFlow(flow):
                cookie, _, rest = WRITE.flow(flow).partition(" actions=")[0].partition(",")
                self._ofctl("del-flows", "--strict", f"{cookie}/-1,{rest}")
            case AddGroup(group):
                self._ofctl("add-group", WRITE.group(group))
            case ModifyGroup(group):
                self._ofctl("mod-group", WRITE.group(group))
            case DeleteGroup(group_id):
                self._ofctl("del-groups", f"group_id={group_id}")
            case AddMeter(meter):
                self._ofctl("add-meter", WRITE.meter(meter))
            case ModifyMeter(meter):
                self._ofctl("mod-meter", WRITE.meter(meter))
            case DeleteMeter(meter_id):
                self._ofctl("del-meter", f"meter={meter_id}")

    def _daemon(self, name: str, *arguments: str) -> None:
        """--detach returns when the daemon is ready."""
        files = (f"--pidfile={self.directory}/{name}.pid", f"--unixctl={self.directory}/{name}.ctl")
        self._run(name, "--detach", "--no-chdir", "-vconsole:off", *files, *arguments)

    def _ofctl(self, verb: str, *arguments: str, given: str = "") -> str:
        return self._run("ovs-ofctl", "-O", "OpenFlow13", verb, f"{self.directory}/br.mgmt", *arguments, given=given)

    def _appctl(self, *arguments: str) -> str:
        return self._run("ovs-appctl", "-t", f"{self.directory}/ovs-vswitchd.ctl", *arguments)

    def _run(self, *argv: str, given: str = "") -> str:
        places = {"OVS_RUNDIR": str(self.directory), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        return run(*argv, given=given, environment=places).stdout


def _set(packet: Packet, inner: str) -> Packet:
    """Return the packet with the fields of `eth(src=...,dst=...)`."""
    header, _, values = inner.removesuffix(")").partition("(")
    changed: dict[str, int | str] = {}
    for pair in _split(values):
        key, _, value = pair.partition("=")
        changed[SET[header][key]] = int(value) if value.isdecimal() else value
    return replace(packet, **changed)  # type: ignore[arg-type]


def _split(text: str) -> Iterator[str]:
    """Split at the commas outside of brackets."""
    return (each.group() for each in re.finditer(r"(?:[^,()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))+", text))
