# SPDX-License-Identifier: Apache-2.0
"""An access point with ten terminals, controller and agents."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.air.plan import GATEWAY, NOBODY, TERMINALS, Scene, Variant
from lab.processes.agents import SETTINGS, agent
from lab.processes.controller import LOOK_EVERY_S, OPENFLOW, TREE, Controller, controlled
from lab.stage import ovs
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from lab.stage.watch import watched
from topologies.access_point import MOST_TERMINALS, SERVERS, AccessPointTopo
from topologies.access_point import TERMINALS as TERMINAL_NAMES

FILE = TREE / "topologies" / "access_point.yaml"
SITE = "ap"
RULE = re.compile(r"rule: \w+, tables: \w+")
WITHIN_S = 20.0
# An idle link carries at most QUIET_PACKETS in QUIET_S, which exceeds the longest round trip.
QUIET_S, QUIET_PACKETS = 0.3, 20
LINKS = ("air", *SERVERS)
NEAREST_SERVER = SERVERS["s4"]
# One late packet in a thousand does not change a second's goodput.
MAX_LATE_SHARE = 0.001
RECEIVE_BUFFER = "net.ipv4.tcp_rmem"
DEFAULT_RECEIVE_BUFFER = "4096 131072 6291456"
# The largest receive buffer decides the window scale.
SCALED_RECEIVE_BUFFER = {14: f"4096 131072 {1 << 29}"}


@dataclass(frozen=True, slots=True)
class Laboratory:
    net: Stage
    controller: Controller

    @property
    def terminals(self) -> list[Machine]:
        return [self.net.machine(name) for name in TERMINAL_NAMES if name in self.net]

    @property
    def servers(self) -> dict[str, Machine]:
        return {name: self.net.machine(name) for name in SERVERS}

    def set_scene(self, scene: Scene) -> None:
        air = self.net.uplink("air")
        for way in (air.forward, air.backward):
            way.set(contention=scene.contention)
        air.forward.set(loss_percent=scene.loss_percent)
        receive = SCALED_RECEIVE_BUFFER.get(scene.window_scale, DEFAULT_RECEIVE_BUFFER)
        for server in self.servers.values():
            server.run("sysctl", "--quiet", "--write", f"{RECEIVE_BUFFER}={receive}")

    def set_rule(self, variant: Variant) -> None:
        text = self.controller.file.read_text(encoding="utf-8")
        wanted = RULE.sub(f"rule: {variant.rule}, tables: {variant.tables}", text)
        if wanted == text:
            return
        self.controller.file.write_text(wanted, encoding="utf-8")
        self.controller.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + WITHIN_S
        while not _is_in_force(told := self._access_point(), variant):
            if time.monotonic() > deadline:
                raise ExperimentFailed(f"{variant}: not in force {WITHIN_S:.0f} s after the reload; the API has {told}")
            time.sleep(LOOK_EVERY_S)

    def capped_terminals(self) -> int:
        access_point = self._access_point()
        return sum(1 for one in access_point["terminals"] if one["held"] and one["windows"]) if access_point else 0

    def _access_point(self) -> dict[str, Any] | None:
        return next(iter(self.controller.client.get("caps")), None)

    def forget(self) -> None:
        """Drop TCP's cached metrics: an upload would start with an earlier run's ssthresh."""
        for machine in (*self.terminals, *self.servers.values()):
            machine.run("ip", "tcp_metrics", "flush")

    def await_quiet(self) -> None:
        air = self.net.uplink("air")
        deadline = time.monotonic() + WITHIN_S
        moved, before = -1, -2
        while moved - before > QUIET_PACKETS or before < 0:
            if time.monotonic() > deadline:
                raise ExperimentFailed(
                    f"the access point still carries packets {WITHIN_S:.0f} s after the last upload ended"
                )
            time.sleep(QUIET_S)
            before, moved = moved, sum(way.out_packets for way in air.counters())

    def carried_bits(self) -> int:
        """Return the bits carried in both directions since the start."""
        return sum(way.out_bytes for way in self.net.uplink("air").counters()) * 8

    def spoilt(self) -> str:
        """Return the links stalled since the previous call; "" if none counts."""
        found = {name: self.net.uplink(name).lateness() for name in LINKS}
        late = {name: one for name, one in found.items() if one.stalls > MAX_LATE_SHARE * one.packets}
        return "; ".join(f"on {name} {one}" for name, one in late.items())


def _is_in_force(access_point: dict[str, Any] | None, variant: Variant) -> bool:
    """Return whether the rule is in force and every agent reports: the gateway cannot cap a connection older than its
    programs.
    """
    if access_point is None or access_point["rule"] != variant.rule:
        return False
    if variant.rule == "paper" and access_point["tables"] != variant.tables:
        return False
    return variant.enforcer == NOBODY or all(one["reporting"] for one in access_point["terminals"])


@contextmanager
def laboratory(enforcer: str, logs: Path, terminals: int = MOST_TERMINALS) -> Iterator[Laboratory]:
    with (
        controlled(FILE, SETTINGS) as controller,
        raised(AccessPointTopo(terminals), controller=OPENFLOW) as net,
        watched(ovs.needed(), logs),
        ExitStack() as agents,
    ):
        controller.await_steady()
        lab = Laboratory(net, controller)
        _await_reachable(lab)
        if enforcer == TERMINALS:
            for terminal in lab.terminals:
                agents.enter_context(agent(controller, terminal, terminal.name, "terminal"))
        elif enforcer == GATEWAY:
            agents.enter_context(agent(controller, None, SITE, "gateway"))
        yield lab


def _await_reachable(lab: Laboratory) -> None:
    first, *others = lab.terminals
    ways = [(first, server) for server in SERVERS.values()] + [(each, NEAREST_SERVER) for each in others]
    deadline = time.monotonic() + WITHIN_S
    for terminal, server in ways:
        while terminal.run("ping", "-c", "1", "-W", "1", server, check=False).returncode != 0:
            if time.monotonic() > deadline:
                raise ExperimentFailed(f"{server} does not answer {terminal.name} within {WITHIN_S:.0f} s")
