# SPDX-License-Identifier: Apache-2.0
"""An access point with real agents, uploads over it, and the kernel's state of their sockets."""

from __future__ import annotations

import ctypes
import platform
import re
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import if_nametoindex
from typing import Any

from experiments.air.endpoints import PORT, End, uploading
from experiments.air.laboratory import FILE
from lab.processes.agents import SETTINGS, AgentProcess, agent
from lab.processes.controller import OPENFLOW, controlled
from lab.stage import isolate
from lab.stage.command import run
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from lab.traffic.streaming import PORT as STREAM_PORT
from tests.system.conftest import GatewayLab
from tests.system.evidence import reaches, until
from topologies.access_point import SERVERS, AccessPointTopo, address

SITE, DEVICE = "ap", "gw-air"
NEAR = "s16"
SERVER = SERVERS[NEAR]
LAPTOPS, PHONES = ("t1", "t2"), ("t3", "t4")  # with their own agent, and without
CONTROL, WINDOW = "congestion-control", "window"  # the enforcers of their caps
SECOND = "192.168.2.3"  # the server's second address, for MPTCP
LOOKS = 20
SYS_BPF = {"x86_64": 321}.get(platform.machine(), 280)
BPF_PROG_QUERY, TCX_INGRESS, TCX_EGRESS = 16, 46, 47  # from linux/bpf.h


@dataclass(frozen=True, slots=True)
class UploadSocket:
    """A socket that sends to the server."""

    control: str
    cwnd: int
    srtt_ms: float
    least_rtt_ms: float
    in_flight_bytes: int
    acked_bytes: int
    mss_bytes: int
    step_bytes: int  # granularity of its peer's windows

    @property
    def in_flight_segments(self) -> int:
        """Return the segments in flight without the excess that the steps of a window allow."""
        return -(-max(0, self.in_flight_bytes - self.step_bytes) // self.mss_bytes)


@dataclass(frozen=True)
class AccessPointLab(GatewayLab):
    agents: Mapping[str, AgentProcess]

    def access_point(self) -> dict[str, Any]:
        (one,) = self.controller.client.get("caps")
        return dict(one)

    def view(self, terminal: str) -> dict[str, Any]:
        return next(one for one in self.access_point()["terminals"] if one["terminal"] == terminal)

    def bounds(self, terminal: str) -> tuple[int, int]:
        """Return the least and the most segments of a connection to the server, or (0, 0) without a cap."""
        windows = self.view(terminal)["windows"]
        return max(((one["least_segments"], one["most_segments"]) for one in windows), default=(0, 0))

    def lines(self, terminal: str, port: int = PORT) -> list[UploadSocket]:
        words = ("ss", "-tinOH", "state", "established", "dport", "=", f":{port}")
        return [_line(each) for each in self.net.machine(terminal).run(*words).stdout.splitlines() if " cwnd:" in each]

    def in_flight(self, terminal: str, hand: str, port: int = PORT) -> int:
        """Return the segments in flight, or the congestion windows if the congestion control enforces the cap."""
        if hand == CONTROL:
            return sum(each.cwnd for each in self.lines(terminal, port))
        return sum(each.in_flight_segments for each in self.lines(terminal, port))

    def held(self, terminal: str, hand: str, port: int = PORT) -> bool:
        """Return whether the controller and the sockets both show the cap."""
        view, lines = self.view(terminal), self.lines(terminal, port)
        least, most = self.bounds(terminal)
        if not (lines and view["held"] and view["method"] == hand and most):
            return False
        now = self.in_flight(terminal, hand, port)
        ours = all(each.control.startswith("bicast_") for each in lines)
        return least <= now <= most and ours if hand == CONTROL else 0 < now <= most

    def await_held(self, terminal: str, hand: str, port: int = PORT) -> None:
        until(lambda: self.held(terminal, hand, port), f"{terminal} is held by {hand}")

    def kept(self, terminal: str, hand: str, port: int = PORT) -> bool:
        """Return whether the cap holds in each of many samples, for about a second."""
        most = self.bounds(terminal)[1]
        for _ in range(LOOKS):
            before, now = most, self.in_flight(terminal, hand, port)
            most = self.bounds(terminal)[1]
            if not 0 < now <= max(before, most):
                return False
        return True

    def await_free(self, terminal: str, hand: str, most: int) -> None:
        """Wait until no earlier cap bounds the terminal."""
        until(
            lambda: self.in_flight(terminal, hand) > 1.5 * most,
            f"{terminal} has more than 1.5 times the {most} segments on its way that it was held to by {hand}",
        )

    def await_moving(self, terminal: str) -> None:
        """Wait until more of the terminal's upload arrives."""
        before = sum(each.acked_bytes for each in self.lines(terminal))
        until(lambda: sum(each.acked_bytes for each in self.lines(terminal)) > before, f"{terminal}'s upload goes on")

    def revive(self) -> None:
        """Start the agents that were killed."""
        here = {one["name"] for one in self.controller.client.get("status")["agents"] if one["state"] == "here"}
        for name in self.agents.keys() - here:
            self.agents[name].start()

    def set_rule(self, rule: str) -> None:
        """Set the rule of the access point. It is in force when this returns."""
        text = self.controller.file.read_text(encoding="utf-8")
        self.controller.file.write_text(re.sub(r"rule: \w+", f"rule: {rule}", text), encoding="utf-8")
        self.controller.process.send_signal(signal.SIGHUP)
        until(lambda: bool(self.access_point()["rule"] == rule), f"the rule is {rule}")

    @contextmanager
    def ready(self, *terminals: str) -> Iterator[dict[str, End]]:
        """Yield one upload for each terminal. It starts when `go` is called."""
        targets = {self.net.machine(name): SERVER for name in terminals}
        with tempfile.TemporaryDirectory(prefix="air-", dir=isolate.RUN_DIRECTORY) as place:
            servers = {SERVER: self.net.machine(NEAR)}
            with uploading(targets, servers, 1, "cubic", Path(place)) as (sending, _):
                yield dict(zip(terminals, sending, strict=True))

    @contextmanager
    def held_uploads(self, **hands: str) -> Iterator[dict[str, End]]:
        """Yield running uploads by terminal, after their caps are in force."""
        with self.ready(*hands) as sending:
            for each in sending.values():
                each.go()
            for name, hand in hands.items():
                self.await_held(name, hand)
            yield sending

    def forget(self) -> None:
        """Flush TCP's metrics of earlier connections: the next one would begin with their threshold."""
        for name in (*LAPTOPS, *PHONES):
            self.net.machine(name).run("ip", "tcp_metrics", "flush")


def _line(told: str) -> UploadSocket:
    def number(name: str) -> int:
        found = re.search(rf"\b{name}:(\d+)", told)
        return int(found[1]) if found else 0

    rtt = re.search(r"\brtt:([\d.]+)", told)
    least = re.search(r"\bminrtt:([\d.]+)", told)
    control = re.search(r"\b(bicast_\w+|cubic|reno|bbr)\b", told)
    scale = re.search(r"\bwscale:(\d+)", told)
    assert control and scale, told
    return UploadSocket(
        control=control[1],
        cwnd=number("cwnd"),
        srtt_ms=float(rtt[1]) if rtt else 0.0,
        least_rtt_ms=float(least[1]) if least else 0.0,
        in_flight_bytes=number("bytes_sent") - number("bytes_retrans") - number("bytes_acked"),
        acked_bytes=number("bytes_acked"),
        mss_bytes=number("mss"),
        step_bytes=1 << int(scale[1]),
    )


def programs_at(device: str) -> int:
    """Count the programs of any kind at a device in the world's root namespace."""
    filters = "".join(run("tc", "filter", "show", "dev", device, way).stdout for way in ("ingress", "egress"))
    return filters.count("bicast_") + sum(_links_at(device, each) for each in (TCX_INGRESS, TCX_EGRESS))


def _links_at(device: str, attach_type: int) -> int:
    query = (ctypes.c_uint32 * 16)(if_nametoindex(device), attach_type)
    failed = ctypes.CDLL(None, use_errno=True).syscall(SYS_BPF, BPF_PROG_QUERY, query, ctypes.sizeof(query))
    assert failed == 0, f"what is attached to {device} cannot be asked: errno {ctypes.get_errno()}"
    return int(query[6])  # prog_cnt, behind the address of the program ids, which have no buffer


def controls(machine: Machine) -> list[str]:
    """Return the congestion controls that the kernel knows."""
    return machine.run("sysctl", "-n", "net.ipv4.tcp_available_congestion_control").stdout.split()


def _second_way(net: Stage) -> None:
    """Give all MPTCP connections a second path to the server."""
    server = net.machine(NEAR)
    server.run("ip", "address", "add", f"{SECOND}/24", "dev", "lan")
    server.run("ip", "mptcp", "endpoint", "add", SECOND, "dev", "lan", "signal", "port", str(STREAM_PORT))
    for name in (*LAPTOPS, *PHONES):
        net.machine(name).run("ip", "mptcp", "limits", "set", "subflows", "8", "add_addr_accepted", "2")


@contextmanager
def shared(place: Path) -> Iterator[AccessPointLab]:
    """Yield an access point with four terminals under the rule ideal. Two of them and the gateway have agents."""
    with (
        controlled(FILE, SETTINGS, directory=place) as controller,
        raised(AccessPointTopo(terminals=len(LAPTOPS + PHONES)), controller=OPENFLOW) as net,
        ExitStack() as running,
    ):
        controller.await_steady()
        for name in (*LAPTOPS, *PHONES):
            until(lambda name=name: reaches(net.machine(name), address(name), SERVER), f"{name} is found")
        _second_way(net)
        agents = {
            name: running.enter_context(agent(controller, net.machine(name), name, "terminal")) for name in LAPTOPS
        }
        agents[SITE] = running.enter_context(agent(controller, None, SITE, "gateway"))
        air = AccessPointLab(net, controller, agents)
        air.returns_soon()
        air.set_rule("ideal")
        until(lambda: programs_at(DEVICE) == 2, "the gateway's agent sees what passes")
        yield air
