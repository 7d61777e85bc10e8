# SPDX-License-Identifier: Apache-2.0
"""The home of topologies/home.py with its controller and agents.

The client address at the web server shows whether a terminal is relayed.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.processes.agents import SETTINGS_FOR_HOSTS, AgentProcess, agent
from lab.processes.connections import SubflowState, mptcp
from lab.processes.controller import LOOK_EVERY_S, OPENFLOW, TREE, Controller, controlled
from lab.stage import command
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from lab.traffic.web import CURL, WebServer, web_server
from topologies.home import RELAYED, RELAYS, TERMINALS, WEB, HomeTopo

FILE = TREE / "topologies" / "home.yaml"
SITE = "home"
RELAYED_TERMINALS = ("television", "laptop")
WITHIN_S = 60.0
PATIENCE_S = 20  # of curl


def local(terminal: str, uplink: str) -> str:
    """Return the gateway's address towards relays for this terminal."""
    return f"{RELAYED[uplink]}.{TERMINALS[terminal].rpartition('.')[2]}"


@dataclass(frozen=True, slots=True)
class RelayedHome:
    net: Stage
    controller: Controller
    agents: Mapping[str, AgentProcess]  # the gateway's by site, others by relay
    web: WebServer

    def machine(self, name: str) -> Machine:
        return self.net.machine(name)

    def seen(self, terminal: str, url: str = "") -> str:
        """Return the client address at the server; "": the request failed."""
        words = (*CURL, "--max-time", str(PATIENCE_S), url or self.web.url("who"))
        return self.machine(terminal).run(*words, check=False).stdout

    def await_relayed(self, terminal: str, *relays: str) -> None:
        """Wait until one of these relays (default: any) relays the terminal."""
        expected = [RELAYS[name] for name in relays or RELAYS]
        self._await(
            lambda: self.seen(terminal) in expected, f"{terminal}: connections come from {' or '.join(expected)}"
        )

    def await_active(self, terminal: str, relay: str, uplink: str) -> list[SubflowState]:
        """Wait until the terminal's largest connection at this relay has a subflow on each uplink, with only this one
        active.
        """
        wanted = {local(terminal, each): each != uplink for each in RELAYED}
        self._await(
            lambda: {one.client: one.backup for one in self.subflows(terminal, relay)} == wanted,
            f"{terminal} has a connection at {relay} with a subflow on each uplink and {uplink} active",
        )
        return sorted(self.subflows(terminal, relay), key=lambda one: one.client)

    def await_store(self, terminal: str, relay: str, uplink: str) -> None:
        """Wait until all pooled connections for the terminal at this relay use this uplink; they do from the first
        report on.
        """
        wanted = {local(terminal, each): each != uplink for each in RELAYED}
        self._await(
            lambda: all({one.client: one.backup for one in each} == wanted for each in self._of(terminal, relay)),
            f"pooled connections at {relay} for {terminal} use {uplink}",
        )

    def subflows(self, terminal: str, relay: str) -> list[SubflowState]:
        found = self._of(terminal, relay)
        return max(found, key=lambda each: sum(one.delivered_bytes for one in each), default=[])

    def passed_on(self) -> list[int]:
        """Return the bytes of each subflow from one relay to another."""
        subflows = (one for name in RELAYS for each in carried(self.machine(name)) for one in each)
        return [one.delivered_bytes for one in subflows if one.client in RELAYS.values()]

    def await_passed_on(self, terminal: str) -> None:
        self._await(
            lambda: bool(self.seen(terminal) and self.passed_on()), "a connection has subflows through two relays"
        )

    def _of(self, terminal: str, relay: str) -> list[list[SubflowState]]:
        own = {local(terminal, uplink) for uplink in RELAYED}
        return [each for each in carried(self.machine(relay)) if {one.client for one in each} & own]

    def pin(self, terminal: str, mode: str, uplink: str) -> None:
        """Override mode and active uplink, and wait until the switch's caches agree."""
        self.controller.client.set_active(terminal, uplink)
        self.controller.client.set_mode(terminal, mode)
        self.controller.await_steady()
        command.run("ovs-appctl", "revalidator/wait")

    def arrived(self) -> dict[str, int]:
        """Return the packets that reached the Internet since the start."""
        told = json.loads(self.machine("internet").run("ip", "-json", "-statistics", "link").stdout)
        return {one["ifname"]: one["stats64"]["rx"]["packets"] for one in told if one["ifname"] in RELAYED}

    def forget(self) -> None:
        for name in ("world", "web", *TERMINALS, *RELAYS):
            self.machine(name).run("ip", "tcp_metrics", "flush")

    def stalled(self, late_share: float = 0) -> str:
        """Return emulated links with more late packets than this share since the previous call."""
        found = {name: self.net.uplink(name).lateness() for name in ("core", "web")}
        return "; ".join(f"on {name} {late}" for name, late in found.items() if late.stalls > late_share * late.packets)

    def _await(self, fits: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not fits():
            if time.monotonic() > deadline:
                raise ExperimentFailed(f"expected within {WITHIN_S:.0f} s that {what}")
            time.sleep(LOOK_EVERY_S)  # no event to wait for


def carried(relay: Machine) -> list[list[SubflowState]]:
    found = []
    for connection in json.loads(mptcp(relay, "list", "--json").stdout):
        those = [one for one in connection["subflows"] if connection["serves"] and one["established"]]
        found.append(
            [
                SubflowState(
                    one["remote_address"],
                    one["backup_by_us"] or one["backup_by_peer"],
                    one["bytes_acked"] + one["bytes_received"],
                )
                for one in those
            ]
        )
    return found


@contextmanager
def _written(at_once: bool) -> Iterator[Path]:
    """Write gateway.yaml; `at_once` raises the uplinks' bandwidth, or one relay would be predicted to fill them."""
    if not at_once:
        yield FILE
        return
    text = FILE.read_text().replace("    relaying:\n", "    relaying:\n      choose: parallel\n")
    with TemporaryDirectory() as directory:
        file = Path(directory) / FILE.name
        file.write_text(re.sub(r"(port: rl-\w+, gateways: \[.*?\])", r"\1, bandwidth_bps: 1000000000000", text))
        yield file


@contextmanager
def relayed_home(
    *,
    relays: tuple[str, ...] = ("tokyo",),
    congestion: str | None = None,
    listeners: tuple[int, ...] = (),
    at_once: bool = False,
    **shape: object,
) -> Iterator[RelayedHome]:
    """Run the home and wait until each relayed terminal is relayed.

    `congestion` is the relays' congestion control, `listeners` are sockets of the API. With `at_once` several relays
    are chosen where one more adds throughput. `shape` goes to the topology.
    """
    with (
        _written(at_once) as file,
        controlled(file, SETTINGS_FOR_HOSTS, listeners) as controller,
        raised(HomeTopo(**shape), controller=OPENFLOW) as net,
        web_server(net.machine("web"), WEB, mptcp=False) as web,
        ExitStack() as running,
    ):
        controller.await_steady()
        agents = {SITE: running.enter_context(agent(controller, None, SITE, "gateway"))}
        for name in relays:
            controller.client.add_relay(name, RELAYS[name], congestion=congestion)
            machine = net.machine(name)
            agents[name] = running.enter_context(agent(controller, machine, name, "relay", host=machine))
        home = RelayedHome(net, controller, agents, web)
        for terminal in RELAYED_TERMINALS:
            home.await_relayed(terminal, *relays)
        controller.await_steady()
        yield home
