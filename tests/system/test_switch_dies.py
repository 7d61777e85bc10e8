# SPDX-License-Identifier: Apache-2.0
"""A killed Open vSwitch gets its program back when it restarts, like under systemd."""

from __future__ import annotations

import os
import select
import signal

from lab.stage import ovs
from lab.stage.command import run
from tests.system.conftest import GatewayLab, PeopleOverrides
from tests.system.evidence import assert_reaches, program, reaches, until
from topologies.paper import BRIDGE, SERVER

HERE = "192.168.110.3"


def kill_switch() -> None:
    (pid,) = (each.pid for each in ovs.needed() if each.name == "ovs-vswitchd")
    death = os.pidfd_open(pid)
    signal.pidfd_send_signal(death, signal.SIGKILL)
    select.select([death], [], [])
    os.close(death)


def start_switch() -> None:
    run("ovs-vswitchd", "--pidfile", "--no-chdir", "--detach", "--log-file", "-vconsole:off")


def test_a_restarted_switch_gets_the_same_program(paper: GatewayLab, wish: PeopleOverrides) -> None:
    client = paper.net.machine("client")
    wish.mode("single")
    wish.active("lte")
    until(lambda: reaches(client, HERE, SERVER), "packets pass before")
    before, process = program(BRIDGE), paper.controller.process.pid
    kill_switch()
    paper.controller.await_state("absent")
    assert not reaches(client, HERE, SERVER)
    start_switch()
    paper.controller.await_steady()
    paper.await_in_force()
    assert program(BRIDGE) == before
    assert_reaches(client, HERE, SERVER)
    (terminal,) = paper.controller.client.get("terminals")
    assert (terminal["mode"], terminal["active_uplink"]) == ("single", "lte")
    assert (paper.controller.process.pid, paper.controller.process.poll()) == (process, None)
