# SPDX-License-Identifier: Apache-2.0
"""An agent's rights as a service are enough for its role. With fewer, it reports what it cannot do."""

from __future__ import annotations

import json
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from experiments.air.laboratory import FILE
from lab.processes import agents
from lab.processes.agents import SETTINGS, agent, eliminating
from lab.processes.connections import AGENT
from lab.processes.controller import OPENFLOW, controlled
from lab.stage.command import run
from lab.stage.isolate import RUN_DIRECTORY
from lab.stage.nodes import Machine
from lab.stage.stage import raised
from tests.system import as_a_service
from tests.system.conftest import two_sites
from tests.system.evidence import PATIENCE_S, reaches, until
from tests.system.pinging import PINGS, pinged
from tests.system.shared_air import CONTROL, DEVICE, SITE, WINDOW, AccessPointLab, programs_at
from tests.system.shared_air import SERVER as NEAR
from tests.system.tunnelled import BY_LTE, CLIENT, FULL, tunnelling
from topologies.access_point import AccessPointTopo, address
from topologies.paper import SERVER

CONTROLLER = "198.18.1.1"  # in the world's own namespace, for agents in the namespaces of terminals
REACHABLE = SETTINGS.replace("}", f', listen: "{CONTROLLER}:8655", join: "{CONTROLLER}:8656"}}')
ABLE, UNABLE = "t1", "t2"


def serve(place: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    """Give later agents the rights of their unit, and these."""
    words = shlex.join([sys.executable, as_a_service.__file__, *more, "--", AGENT])
    program = place / "agent"
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(agents, "AGENT", str(program))


def test_a_service_may_eliminate_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(tmp_path, monkeypatch)
    with two_sites(tmp_path) as twin, eliminating(twin.controller, "home", "far"):
        twin.await_in_force()
        assert [pinged(twin, source) for source in (CLIENT, BY_LTE)] == [(PINGS, 0)] * 2
        said = twin.controller.client.get("status")["agents"]
        cannot = {one["name"]: [each["name"] for each in one["missing"]] for one in said}
        assert cannot == {"home": [], "far": []}, said


@pytest.mark.slow
def test_a_service_may_make_tunnels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agents of this topology live in other namespaces than their ports. Only that needs two more rights."""
    serve(tmp_path, monkeypatch, "CAP_SYS_ADMIN", "CAP_SYS_PTRACE")
    with tunnelling(tmp_path) as both:
        assert [pinged(both, source) for source in (CLIENT, BY_LTE)] == [(PINGS, 0)] * 2
        words = shlex.split(f"ping -c 2 -W 2 -M do -s {FULL} -I {CLIENT} {SERVER}")
        said = both.net.machine("client").run(*words, check=False).stdout
        assert f"Frag needed and DF set (mtu = {FULL})" in said


@contextmanager
def sharing(place: Path) -> Iterator[AccessPointLab]:
    """Yield two capped terminals whose namespaces reach the controller, without agents."""
    file = place / FILE.name
    file.write_text(FILE.read_text().replace("rule: off", "rule: ideal"))
    run("ip", "address", "add", CONTROLLER, "dev", "lo")
    with controlled(file, REACHABLE) as controller, raised(AccessPointTopo(terminals=2), controller=OPENFLOW) as net:
        controller.await_steady()
        for name in (ABLE, UNABLE):
            manage(net.machine(name))
            until(lambda name=name: reaches(net.machine(name), address(name), NEAR), f"{name} is found")
        yield AccessPointLab(net, controller, {})
    run("ip", "address", "del", CONTROLLER, "dev", "lo")


def manage(terminal: Machine) -> None:
    """Connect a terminal's namespace to the controller."""
    here, own = f"mg-{terminal.name}", f"198.18.1.1{terminal.name[1:]}"
    run("ip", "link", "add", here, "type", "veth", "peer", "name", "mgmt", "netns", str(terminal.pid))
    run("ip", "link", "set", here, "up")
    run("ip", "route", "add", own, "dev", here)
    terminal.run("ip", "link", "set", "mgmt", "up")
    terminal.run("ip", "address", "add", own, "dev", "mgmt")
    terminal.run("ip", "route", "add", CONTROLLER, "dev", "mgmt")


def sharers() -> list[int]:
    """Return the number of sharers that each agent reports at its socket."""
    return [asked(door) for door in RUN_DIRECTORY.glob("agent-*/runtime/sharers")]


def asked(door: Path) -> int:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(PATIENCE_S)
        asking.connect(str(door))
        return int(json.loads(asking.makefile().readline())["sharers"])


@pytest.mark.slow
def test_a_service_may_enforce_caps_and_report_sharers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One terminal enforces its own cap. The gateway enforces the other's, whose agent lacks the rights."""
    with sharing(tmp_path) as air, ExitStack() as running:

        def begun(name: str, role: str, *more: str) -> None:
            serve(tmp_path, monkeypatch, *more)
            machine = air.net.machine(name) if role == "terminal" else None
            running.enter_context(agent(air.controller, machine, name, role))

        begun(UNABLE, "terminal", "-CAP_BPF", "-CAP_PERFMON")
        begun(ABLE, "terminal")
        with air.ready(UNABLE) as sending:
            sending[UNABLE].go()
            until(lambda: f"its agent {UNABLE} cannot: " in air.view(UNABLE)["reason"], "it says that it cannot")
        assert "CAP_BPF" in air.view(UNABLE)["reason"]
        begun(SITE, "gateway")
        until(lambda: programs_at(DEVICE) == 2, "the gateway's agent sees what passes")
        with air.held_uploads(**{ABLE: CONTROL, UNABLE: WINDOW}):
            until(lambda: sharers() == [2, 2], "programs of both terminals are told of the two")
