# SPDX-License-Identifier: Apache-2.0
"""The rented machine: it waits for its home, and becomes the far site with the controller."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from controller.edges.http.client import Denied, NoAnswer
from controller.model.config import Config
from controller.model.settings import Endpoint
from gateway.host import HostError
from gateway.init import document, facts, services, steps
from gateway.init.controller import LOOK_EVERY_S, LocalController
from gateway.init.document import AGENTS, API, EVERY_ADDRESS, FAR, HOME, JOIN, OPENFLOW, FarFacts
from gateway.init.exchange import Channel, ExchangeError, reception
from gateway.init.facts import HomeFacts
from gateway.init.invitation import PORT
from gateway.init.made import Change, Made, Places
from gateway.init.services import AGENT, BRIDGE, CONTROLLER, Opening, Systemd, port

HOME_WITHIN_S = 300.0  # a small computer with a slow disk prepares its bridge in one minute
TUNNELS_WITHIN_S = 120.0
PAIRS = (
    *(("ca.pem", "ca-signing.key"), ("controller.pem", "controller.key")),
    *(("switch-2.pem", "switch-2.key"), ("switch-1.pem", "switch-1.key")),
)
# systemd-networkd would serve and masquerade a veth device named ve-* as that of a container.
OWN_DEVICES = ("br-far", "tf-*", "bicast-*", f"{document.EXIT_PORT}*")
FOR_HOME = ("ca.pem", "switch-1.pem", "switch-1.key")  # never ca-signing.key


class FarInit:
    def __init__(self, places: Places, systemd: Systemd, address: str | None, device: str | None) -> None:
        """Raise HostError where this machine cannot be a far site. Nothing is changed."""
        self._places, self._systemd, self._made = places, systemd, Made(places)
        self._controller = LocalController()
        steps.refuse_unprepared(places, self._made, systemd)
        out = facts.way_out(facts.devices(), device)
        public = facts.public_address(out, address)
        own = public in [str(each.ip) for each in out.addresses]
        if not self._made:
            steps.refuse_taken((OPENFLOW, API, PORT, AGENTS, JOIN), (document.FIRST_TUNNEL, document.PROBES))
        prefix = self._known_prefix() or document.new_prefix() if facts.has_global_ipv6() else ""
        self.facts = FarFacts(public, out.name, own, facts.datapath(), prefix)
        services.refuse_closed((*self.openings(1), port("tcp", PORT)))

    def _known_prefix(self) -> str:
        return document.prefix_of(self._config()) if self._made and self._places.gateway.exists() else ""

    def _config(self) -> Config:
        return steps.site_of(self._places, FAR)[0]

    def openings(self, uplinks: int) -> tuple[Opening, ...]:
        probes = port("udp", document.FIRST_PROBE, document.FIRST_PROBE + uplinks - 1)
        tcp = (port("tcp", each) for each in (OPENFLOW, AGENTS, JOIN))
        inside = (Opening(device=each) for each in (f"{document.EXIT_PORT}-h", *document.tunnel_devices(uplinks)))
        tunnels = port("udp", document.FIRST_TUNNEL, document.FIRST_TUNNEL + uplinks - 1)
        return (tunnels, port("udp", document.PROBES), probes, *tcp, *inside)

    def is_done(self) -> bool:
        """Return whether both sites are connected already."""
        return bool(self._made) and {HOME, FAR} <= self._controller.connected()

    def plan(self) -> Iterator[str]:
        """Yield sentences about what will be done, for --dry-run."""
        where = f"{self.facts.address} at {self.facts.device}"
        yield f"would wait at TCP {PORT} of {where} for one home, and then:"
        yield f"would write {self._places.gateway} and {self._places.defaults}"
        if services.is_tree():
            yield f"would copy the units of bicast to {self._places.units}"
        yield f"would create the bridge br-far with datapath {self.facts.datapath}, and keys in {self._places.tls}"
        name = services.firewall()
        if name:
            yield f"would open in {name}: {', '.join(map(str, self.openings(1)))}"
        yield f"would enable and start {BRIDGE}, {CONTROLLER} and {AGENT}, and enrol the agents {HOME} and {FAR}"

    def serve(self, say: Callable[[str], None], report: steps.Report) -> None:
        """Wait for home, become its far site, and report until the tunnels are up."""
        door = port("tcp", PORT)
        steps.carry_out(services.opened(self._made, (door,)), lambda _: None)
        try:
            with reception(Endpoint(EVERY_ADDRESS, PORT)) as here:
                say(f"bicast init {here.invitation(self.facts.address)}")
                channel, message = here.admit()
            with channel:
                self._answer(channel, message, say, report)
        finally:
            services.closed_again(self._made, door)

    def _answer(
        self, channel: Channel, message: dict[str, Any], say: Callable[[str], None], report: steps.Report
    ) -> None:
        try:
            home = facts.home_facts(message)
            steps.carry_out(self._changes(home), report)
            channel.send(self._bundle(home))
        except ExchangeError:
            raise
        except (HostError, NoAnswer, Denied) as error:
            channel.send({"refused": f"the far site says: {error}"})
            raise HostError(str(error)) from error
        say(f"home {channel.peer} has its files, and prepares itself")
        if channel.receive(HOME_WITHIN_S).get("started") is not True:
            raise ExchangeError(f"home did not start: its own output says why; {AGAIN}")
        self._follow(channel, say)

    def _changes(self, home: HomeFacts) -> Iterator[Change]:
        places, made, systemd = self._places, self._made, self._systemd
        names = (CONTROLLER, BRIDGE, AGENT)
        files = list(steps.configuration(places, made, document.text(home, self.facts), FAR))
        yield from files
        yield from services.units(places, made, systemd, names, tls=True)
        yield from services.unmanaged(places, made, OWN_DEVICES)
        yield from steps.tls_listed(places, made, PAIRS)
        yield from steps.bridged(places, FAR)
        yield from services.opened(made, self.openings(len(home.uplinks)))
        again = any(each.act for each in files)
        yield from services.running(made, systemd, (CONTROLLER, BRIDGE), again=again)
        where = str(Endpoint(_reached(self.facts.listen), JOIN))
        yield from self._controller.own_agent(places, made, systemd, FAR, where)

    def _bundle(self, home: HomeFacts) -> dict[str, Any]:
        return {
            "gateway": document.text(home, document.at_home(self.facts)),
            "files": {name: (self._places.tls / name).read_text(encoding="ascii") for name in FOR_HOME},
            "join": str(Endpoint(self.facts.address, JOIN)),
            "token": self._controller.client.invite(HOME)["token"],
        }

    def _follow(self, channel: Channel, say: Callable[[str], None]) -> None:
        """Tell home which tunnels are up, until all are."""
        deadline, last = time.monotonic() + TUNNELS_WITHIN_S, ""
        while True:
            missing = self._missing()
            done = not missing or time.monotonic() > deadline
            if done or "; ".join(missing) != last:
                last = "; ".join(missing)
                channel.send({"missing": missing, "done": done})
            if done:
                break
            time.sleep(LOOK_EVERY_S)
        if missing:
            raise HostError(f"not ready after {TUNNELS_WITHIN_S:.0f} s: {last}; {REMEDY}")
        say("home is connected, and all tunnels are up")

    def _missing(self) -> list[str]:
        status = self._controller.client.get("status")
        there = {each["name"] for each in status["agents"] if each["state"] == "here"}
        missing = [f"the agent {name} is not connected" for name in (HOME, FAR) if name not in there]
        missing += [
            f"the tunnel {uplink['name']} is not up at {gateway['name']}"
            for gateway in status["gateways"]
            for uplink in gateway["uplinks"]
            if uplink["tunnel"] is not None and not uplink["tunnel"]["up"]
        ]
        missing += [
            f"the bridge of {gateway['name']} is not connected"
            for gateway in status["gateways"]
            if gateway["state"] != "steady"
        ]
        return missing


def _reached(listen: str) -> str:
    return "127.0.0.1" if listen == EVERY_ADDRESS else listen


AGAIN = "run `bicast init --far` again for a new line"
REMEDY = (
    f"let UDP from {document.FIRST_TUNNEL}, one port for each uplink, and TCP {OPENFLOW}, {AGENTS} and {JOIN} in at "
    "the rented machine's provider; `bicast status` there shows when they are up"
)
