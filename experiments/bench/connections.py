# SPDX-License-Identifier: Apache-2.0
"""Measure the time from connection to installed program."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from gateway.plan import CONTROLLER_COLUMNS
from lab.processes.controller import OPENFLOW, Controller, controlled
from lab.processes.gateways import bridge_of, many, ports_of
from lab.processes.openflow_spy import BARRIER_REPLY, FEATURES_REPLY, Spy, spying
from lab.results.figures import Figure, below, exactly, figure, middle, percentile, worst
from lab.stage import isolate, ovs
from lab.stage.command import run
from lab.stage.ovs import PrivateOvs

TERMINALS = 100
CONNECTS, DUAL_CONNECTS = 100, 30  # for a p99 with a promise, and without
RECONCILES = 5  # a second connection reconciles again, and takes as long
BRIDGES, BRIDGE_TERMINALS, BRIDGE_ROUNDS = 100, 10, 3
PROMISED_MS, PROMISED_S = 250.0, 10.0
PATIENCE_S = 60.0


@contextmanager
def gateways(sites: dict[str, dict[str, Any]], settings: str = "") -> Iterator[Controller]:
    """Run a controller and these sites' bridges, not yet connected; `settings` extend its part of gateway.yaml."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=isolate.RUN_DIRECTORY) as place, PrivateOvs():
        file = Path(place) / "gateway.yaml"
        file.write_text(yaml.safe_dump({"sites": sites}))
        kept = Path(place) / "kept"
        kept.mkdir()
        for site in sites.values():
            ovs.vsctl(*bridge_of(site))
        ports = [port for site in sites.values() for port in ports_of(site)]
        run("ip", "-batch", "-", given="".join(f"link set {port} up\n" for port in ports))
        with controlled(file, settings, directory=kept) as controller:
            controller.PATIENCE_S = PATIENCE_S
            yield controller


def connects(dual_stack: bool, rounds: int) -> Iterator[Figure]:
    """Setting an empty bridge's controller again avoids the back-off."""
    site = many(TERMINALS, dual_stack=dual_stack)
    bridge = site["bridge"]
    what = f"one gateway, {TERMINALS} terminals, {'two addresses each' if dual_stack else 'one address each'}"
    answered_ms, connected_ms, modifications, again = [], [], [], []
    with gateways({"big": site}) as controller, spying() as spy:
        for number in range(rounds):
            connected = _connected(controller, spy, bridge, spy.address)
            done = spy.wait(BARRIER_REPLY, since=connected)
            answered_ms.append((done - spy.wait(FEATURES_REPLY, since=connected)) * 1000)
            connected_ms.append((done - connected) * 1000)
            modifications.append(float(spy.modifications(since=connected)))
            if number < RECONCILES:
                again.append(float(spy.modifications(_connected(controller, spy, bridge, spy.alias_address))))
            ovs.vsctl("del-controller", bridge)
            controller.await_state("absent")
            ovs.ofctl("del-flows", bridge)
            ovs.ofctl("del-groups", bridge)
    promise = None if dual_stack else below(PROMISED_MS)
    # Open vSwitch 3.1 reads our hello when it next wakes, often half a second later: not the controller's time.
    installed = "installed, from the switch's features reply on"
    connection = "installed, from its TCP connection on (Open vSwitch reads our hello late)"
    yield figure(f"{what}: {installed}, p99", percentile(answered_ms, 99), answered_ms, "ms", promise)
    yield middle(f"  {installed}, median", answered_ms, "ms")
    yield figure(f"  {connection}, p99", percentile(connected_ms, 99), connected_ms, "ms")
    yield middle(f"  {connection}, median", connected_ms, "ms")
    yield middle("  modifications sent for it", modifications, "messages")
    yield worst("  modifications sent by the next reconcile", again, "messages", exactly(0))


def _connected(controller: Controller, spy: Spy, bridge: str, target: str) -> float:
    """Return when the TCP connection of the steady bridge began."""
    before, began = time.time(), time.monotonic()
    ovs.vsctl("set-controller", bridge, target)
    spy.wait(FEATURES_REPLY, since=began)
    controller.await_state("steady", after=before, every_s=0.1)
    return spy.connected_at[-1]


def bridges() -> Iterator[Figure]:
    sites = {f"s{at}": many(BRIDGE_TERMINALS, dpid=at, name=f"s{at}") for at in range(1, BRIDGES + 1)}
    what = f"{BRIDGES} bridges of {BRIDGE_TERMINALS} terminals at once"
    took, again = [], []
    with gateways(sites) as controller:
        names = [site["bridge"] for site in sites.values()]
        for _ in range(BRIDGE_ROUNDS):
            began = time.time()
            set_controller(OPENFLOW, *names)
            took.append(max(controller.await_state("steady", every_s=0.5).values()) - began)
            assert _sent(controller) > 0, "nothing was installed"
            controller.kill()
            controller.start()
            controller.await_state("steady", every_s=0.5)
            again.append(float(_sent(controller)))
            ovs.vsctl(*(word for name in names for word in ("--", "del-controller", name)))
            controller.await_state("absent", every_s=0.5)
            for name in names:
                ovs.ofctl("del-flows", name)
                ovs.ofctl("del-groups", name)
    yield worst(f"{what}: all installed and read back", took, "s", below(PROMISED_S))
    yield worst("  modifications after the controller's death", again, "messages", exactly(0))


def set_controller(target: str, *bridges: str) -> None:
    """Set the bridges' controller as `bicast bridge` does, in two steps for OVS."""
    columns = [f"{name}={value}" for name, value in CONTROLLER_COLUMNS.items()]
    ovs.vsctl(*(word for bridge in bridges for word in ("--", "set-controller", bridge, target)))
    ovs.vsctl(*(word for bridge in bridges for word in ("--", "set", "Controller", bridge, *columns)))


def _sent(controller: Controller) -> int:
    return sum(gateway["changes_sent"] for gateway in controller.client.get("status")["gateways"])


def measure() -> Iterator[Figure]:
    yield from connects(dual_stack=False, rounds=CONNECTS)
    yield from connects(dual_stack=True, rounds=DUAL_CONNECTS)
    yield from bridges()
