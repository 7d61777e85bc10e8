"""From a switch's connection to a switch that holds all it should, and many switches at once."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from bench.figures import Figure, below, exactly, figure, middle, percentile, worst
from bench.sites import bridge_of, many, ports_of
from bench.spy import BARRIER_REPLY, FEATURES_REPLY, Spy, spying
from experiments.running import OPENFLOW, Controller, controlled
from gateway.plan import CONTROLLER_COLUMNS
from topologies import isolate, ovs
from topologies.command import run
from topologies.ovs import PrivateOvs

TERMINALS = 100
CONNECTS, RECONCILES = 30, 5  # a second reconcile is a second connection, and takes as long
BRIDGES, BRIDGE_TERMINALS, BRIDGE_ROUNDS = 100, 10, 3
PROMISED_MS, PROMISED_S = 250.0, 10.0
STEADY = "what is installed is what is wanted"


@contextmanager
def gateways(sites: dict[str, dict[str, Any]]) -> Iterator[Controller]:
    """A controller, and an Open vSwitch with the bridges of these sites; none has a controller yet."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=isolate.RUN_DIRECTORY) as place, PrivateOvs():
        file = Path(place) / "gateway.yaml"
        file.write_text(yaml.safe_dump({"sites": sites}))
        kept = Path(place) / "kept"
        kept.mkdir()
        for site in sites.values():
            ovs.vsctl(*bridge_of(site))
        ports = [port for site in sites.values() for port in ports_of(site)]
        run("ip", "-batch", "-", given="".join(f"link set {port} up\n" for port in ports))
        with controlled(file, directory=kept) as controller:
            yield controller


def connects(dual_stack: bool) -> Iterator[Figure]:
    """The switch's connection is cut in between, and its tables are emptied while it waits to be let in again."""
    site = many(TERMINALS, dual_stack=dual_stack)
    bridge = site["bridge"]
    what = f"one gateway, {TERMINALS} terminals, {'two addresses each' if dual_stack else 'one address each'}"
    installed_ms, asleep_ms, modifications, again = [], [], [], []
    with gateways({"big": site}) as controller, spying() as spy:
        lead(spy.address, bridge)
        controller.await_steady()
        for number in range(CONNECTS):
            emptied = _let_in(controller, spy, bridge, empty=True)
            answered, done = spy.last(FEATURES_REPLY, since=emptied), spy.last(BARRIER_REPLY, since=emptied)
            assert answered is not None and done is not None, "nothing was installed"
            installed_ms.append((done - answered) * 1000)
            asleep_ms.append((answered - emptied) * 1000)
            modifications.append(float(spy.modifications(since=emptied)))
            if number < RECONCILES:
                again.append(float(spy.modifications(since=_let_in(controller, spy, bridge, empty=False))))
    promise = None if dual_stack else below(PROMISED_MS)
    installed = "from the switch's answer to our hello until all is installed"
    yield figure(f"{what}: {installed}, p99", percentile(installed_ms, 99), installed_ms, "ms", promise)
    yield middle(f"{what}: {installed}, median", installed_ms, "ms")
    yield middle(f"{what}: before it, Open vSwitch looks at our hello when it wakes next", asleep_ms, "ms")
    yield middle(f"{what}: modifications sent for it", modifications, "messages")
    yield worst(f"{what}: modifications sent by the next reconcile", again, "messages", exactly(0))


def _let_in(controller: Controller, spy: Spy, bridge: str, *, empty: bool) -> float:
    """Cut it off, let it in again, and wait until it is steady; the moment when it was let in."""
    spy.cut()
    controller.await_word("the switch is gone")
    spy.await_caller()
    if empty:
        ovs.ofctl("del-flows", bridge)
        ovs.ofctl("del-groups", bridge)
    spy.release()
    controller.await_steady()
    return spy.connected_at[-1]


def bridges() -> Iterator[Figure]:
    sites = {f"s{at}": many(BRIDGE_TERMINALS, dpid=at, name=f"s{at}") for at in range(1, BRIDGES + 1)}
    what = f"{BRIDGES} bridges of {BRIDGE_TERMINALS} terminals at once"
    took, again = [], []
    with gateways(sites) as controller:
        names = [site["bridge"] for site in sites.values()]
        for _ in range(BRIDGE_ROUNDS):
            began = time.monotonic()
            lead(OPENFLOW, *names)
            for _ in names:
                controller.await_word(STEADY, 60)
            took.append(time.monotonic() - began)
            sent = _sent(controller)
            controller.kill()
            controller.start()
            for _ in names:
                controller.await_word(STEADY, 60)
            again.append(float(_sent(controller)))
            assert sent > 0, "nothing was installed"
            ovs.vsctl(*(word for name in names for word in ("--", "del-controller", name)))
            for name in names:
                ovs.ofctl("del-flows", name)
                ovs.ofctl("del-groups", name)
            for _ in names:
                controller.await_word("the switch is gone")
    yield worst(f"{what}: all installed and read back", took, "s", below(PROMISED_S))
    yield worst(f"{what}: modifications after the controller's death", again, "messages", exactly(0))


def lead(target: str, *bridges: str) -> None:
    """Give these bridges a controller as `bicast bridge` does, which it says in two steps for a reason of OVS's."""
    columns = [f"{name}={value}" for name, value in CONTROLLER_COLUMNS.items()]
    ovs.vsctl(*(word for bridge in bridges for word in ("--", "set-controller", bridge, target)))
    ovs.vsctl(*(word for bridge in bridges for word in ("--", "set", "Controller", bridge, *columns)))


def _sent(controller: Controller) -> int:
    return sum(gateway["changes_sent"] for gateway in controller.client.get("status")["gateways"])


def measure() -> Iterator[Figure]:
    yield from connects(dual_stack=False)
    yield from connects(dual_stack=True)
    yield from bridges()
