# SPDX-License-Identifier: Apache-2.0
"""An access point with ten terminals and the controller on it, with the agents that a variant is to have."""

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
QUIET_S, QUIET_PACKETS = 0.3, 20  # an air that carries no more in so long; longer than the longest way
LINKS = ("air", *SERVERS)
NEAREST = SERVERS["s4"]
# A packet in a thousand that is late does not change what a second's bytes come to; more, and the air was not ours.
SPOILT_SHARE = 0.001
RECEIVE = "net.ipv4.tcp_rmem"
DEFAULT_RECEIVE = "4096 131072 6291456"
# The kernel announces the scale by which this most can be told.
SCALED_RECEIVE = {14: f"4096 131072 {1 << 29}"}


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
        receive = SCALED_RECEIVE.get(scene.window_scale, DEFAULT_RECEIVE)
        for server in self.servers.values():
            server.run("sysctl", "--quiet", "--write", f"{RECEIVE}={receive}")

    def set_rule(self, variant: Variant) -> None:
        """In force when this returns."""
        text = self.controller.file.read_text(encoding="utf-8")
        wanted = RULE.sub(f"rule: {variant.rule}, tables: {variant.tables}", text)
        if wanted == text:
            return
        self.controller.file.write_text(wanted, encoding="utf-8")
        self.controller.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + WITHIN_S
        while not _follows(told := self._access_point(), variant):
            if time.monotonic() > deadline:
                raise ExperimentFailed(f"{variant} is not in force {WITHIN_S:.0f} s after the reload: {told}")
            time.sleep(LOOK_EVERY_S)  # the API has no event to wait for

    def held(self) -> int:
        """Terminals whose caps somebody holds now."""
        told = self._access_point()
        return sum(1 for one in told["terminals"] if one["held"] and one["windows"]) if told else 0

    def _access_point(self) -> dict[str, Any] | None:
        return next(iter(self.controller.client.get("caps")), None)

    def forget(self) -> None:
        """What TCP remembers of the runs before: an upload would begin with its ssthresh."""
        for machine in (*self.terminals, *self.servers.values()):
            machine.run("ip", "tcp_metrics", "flush")

    def await_quiet(self) -> None:
        """Until what the run before left in the air's queue has gone."""
        air = self.net.uplink("air")
        deadline = time.monotonic() + WITHIN_S
        moved, before = -1, -2
        while moved - before > QUIET_PACKETS or before < 0:
            if time.monotonic() > deadline:
                raise ExperimentFailed(f"the air is not quiet {WITHIN_S:.0f} s after the last upload ended")
            time.sleep(QUIET_S)
            before, moved = moved, sum(way.out_packets for way in air.counters())

    def carried_bits(self) -> int:
        """By the air, both ways, since the beginning."""
        return sum(way.out_bytes for way in self.net.uplink("air").counters()) * 8

    def spoilt(self) -> str:
        """Which links the machine has held up since this was last asked, and how long; empty: none that counts."""
        found = {name: self.net.uplink(name).lateness() for name in LINKS}
        late = {name: one for name, one in found.items() if one.stalls > SPOILT_SHARE * one.packets}
        return "; ".join(f"on {name} {one}" for name, one in late.items())


def _follows(told: dict[str, Any] | None, variant: Variant) -> bool:
    """Whether the rule is this, and whoever is to tell of the terminals has: a connection that is older than the
    gateway's programs has no cap there."""
    if told is None or told["rule"] != variant.rule:
        return False
    if variant.rule == "paper" and told["tables"] != variant.tables:
        return False
    return variant.hand == NOBODY or all(one["heard"] for one in told["terminals"])


@contextmanager
def laboratory(hand: str, logs: Path, terminals: int = MOST_TERMINALS) -> Iterator[Laboratory]:
    """Ready, with an agent at each terminal, or one at the gateway, or none."""
    with (
        controlled(FILE, SETTINGS) as controller,
        raised(AccessPointTopo(terminals), controller=OPENFLOW) as net,
        watched(ovs.needed(), logs),
        ExitStack() as agents,
    ):
        controller.await_steady()
        lab = Laboratory(net, controller)
        _await_found(lab)
        if hand == TERMINALS:
            for terminal in lab.terminals:
                agents.enter_context(agent(controller, terminal, terminal.name, "terminal"))
        elif hand == GATEWAY:
            agents.enter_context(agent(controller, None, SITE, "gateway"))
        yield lab


def _await_found(lab: Laboratory) -> None:
    """Until every terminal and every server is known to those who bring packets there."""
    first, *others = lab.terminals
    ways = [(first, server) for server in SERVERS.values()] + [(each, NEAREST) for each in others]
    deadline = time.monotonic() + WITHIN_S
    for terminal, server in ways:
        while terminal.run("ping", "-c", "1", "-W", "1", server, check=False).returncode != 0:
            if time.monotonic() > deadline:
                raise ExperimentFailed(f"{server} does not answer {terminal.name} within {WITHIN_S:.0f} s")
