# SPDX-License-Identifier: Apache-2.0
"""The home of topologies/home.py with its controller, the agent at its gateway and those of its relays.

Nothing here asks the controller whether terminals are relayed: it is the web server that says who asks it.
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

from lab.processes.agents import SETTINGS_FOR_HOSTS, Agent, agent
from lab.processes.connections import Subflow, mptcp
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
PATIENCE_S = 20  # of who asks who he is


def local(terminal: str, uplink: str) -> str:
    """The address by which the gateway speaks to relays for this terminal."""
    return f"{RELAYED[uplink]}.{TERMINALS[terminal].rpartition('.')[2]}"


@dataclass(frozen=True, slots=True)
class RelayedHome:
    net: Stage
    controller: Controller
    agents: Mapping[str, Agent]  # the gateway's under the site's name, and each relay's
    web: WebServer

    def machine(self, name: str) -> Machine:
        return self.net.machine(name)

    def seen(self, terminal: str, url: str = "") -> str:
        """As whom the server sees who asks it there; empty: nothing comes of it."""
        words = (*CURL, "--max-time", str(PATIENCE_S), url or self.web.url("who"))
        return self.machine(terminal).run(*words, check=False).stdout

    def await_relayed(self, terminal: str, *relays: str) -> None:
        """By one of these, or of all."""
        expected = [RELAYS[name] for name in relays or RELAYS]
        self._await(lambda: self.seen(terminal) in expected, f"{terminal}'s TCP comes from {' or '.join(expected)}")

    def await_active(self, terminal: str, relay: str, uplink: str) -> list[Subflow]:
        """Until what this relay carries most of for the terminal has a subflow by each uplink, and all but this one's
        are backup."""
        wanted = {local(terminal, each): each != uplink for each in RELAYED}
        self._await(
            lambda: {one.client: one.backup for one in self.subflows(terminal, relay)} == wanted,
            f"a connection of {terminal}'s at {relay} has a subflow by each uplink, and {uplink} is active",
        )
        return sorted(self.subflows(terminal, relay), key=lambda one: one.client)

    def await_store(self, terminal: str, relay: str, uplink: str) -> None:
        """Until all connections that wait for the terminal at this relay have this uplink's subflow active: they do
        from the first report on."""
        wanted = {local(terminal, each): each != uplink for each in RELAYED}
        self._await(
            lambda: all({one.client: one.backup for one in each} == wanted for each in self._of(terminal, relay)),
            f"what waits at {relay} for {terminal} is to go by {uplink}",
        )

    def subflows(self, terminal: str, relay: str) -> list[Subflow]:
        """Of the connection of this terminal that has carried most at the relay; none while there is none."""
        found = self._of(terminal, relay)
        return max(found, key=lambda each: sum(one.delivered_bytes for one in each), default=[])

    def passed_on(self) -> list[int]:
        """Bytes of each subflow that comes to a relay by way of another one."""
        subflows = (one for name in RELAYS for each in carried(self.machine(name)) for one in each)
        return [one.delivered_bytes for one in subflows if one.client in RELAYS.values()]

    def await_passed_on(self, terminal: str) -> None:
        """Until there is such a subflow, as a destination that this terminal seeks is reached by several relays."""
        self._await(
            lambda: bool(self.seen(terminal) and self.passed_on()), "a connection of one relay comes by another, too"
        )

    def _of(self, terminal: str, relay: str) -> list[list[Subflow]]:
        own = {local(terminal, uplink) for uplink in RELAYED}
        return [each for each in carried(self.machine(relay)) if {one.client for one in each} & own]

    def pin(self, terminal: str, mode: str, uplink: str) -> None:
        """In force when this returns, in the switch's caches, too."""
        self.controller.client.set_active(terminal, uplink)
        self.controller.client.set_mode(terminal, mode)
        self.controller.await_steady()
        command.run("ovs-appctl", "revalidator/wait")

    def arrived(self) -> dict[str, int]:
        """Packets that the Internet has had by each uplink since it was raised."""
        told = json.loads(self.machine("internet").run("ip", "-json", "-statistics", "link").stdout)
        return {one["ifname"]: one["stats64"]["rx"]["packets"] for one in told if one["ifname"] in RELAYED}

    def forget(self) -> None:
        """What TCP remembers of the connections before."""
        for name in ("world", "web", *TERMINALS, *RELAYS):
            self.machine(name).run("ip", "tcp_metrics", "flush")

    def stalled(self, late_share: float = 0) -> str:
        """On which emulated links more than this share of packets was late since this was last asked; empty: none."""
        found = {name: self.net.uplink(name).lateness() for name in ("core", "web")}
        return "; ".join(f"on {name} {late}" for name, late in found.items() if late.stalls > late_share * late.packets)

    def _await(self, fits: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not fits():
            if time.monotonic() > deadline:
                raise ExperimentFailed(f"within {WITHIN_S:.0f} s it is not so that {what}")
            time.sleep(LOOK_EVERY_S)  # nobody announces it


def carried(relay: Machine) -> list[list[Subflow]]:
    """The connections of gateways to a relay, each as its established subflows."""
    found = []
    for connection in json.loads(mptcp(relay, "list", "--json").stdout):
        those = [one for one in connection["subflows"] if connection["serves"] and one["established"]]
        found.append(
            [
                Subflow(
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
    """With uplinks that are no bound to what relays may add, or else one relay would be predicted to fill them."""
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
    """From when each terminal that is to be relayed is. `congestion` is what the relays send with, `listeners` are of
    the API, `at_once` has several relays be chosen wherever one more adds to what others carry, and `shape` goes to the
    topology."""
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
