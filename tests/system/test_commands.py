# SPDX-License-Identifier: Apache-2.0
"""The commands for people work with a running controller."""

from __future__ import annotations

import os
import signal

from lab.stage import ovs
from lab.stage.command import Done, run
from tests.system.conftest import GatewayLab, PeopleOverrides
from tests.system.evidence import groups, until
from topologies.paper import BRIDGE


def bicast(*words: str) -> Done:
    return run("./bicast", *words, check=False)


def test_mode_and_switch_change_the_groups_and_say_so(paper: GatewayLab, wish: PeopleOverrides) -> None:
    before = groups(BRIDGE)
    said = bicast("mode", "client", "single")
    assert (said.returncode, said.stdout) == (0, "client is in mode single\n")
    assert groups(BRIDGE) != before
    assert bicast("mode", "all", "single").stdout == "client is already in mode single\n"
    said = bicast("switch", "client", "lte")
    moved, hands = said.stdout.splitlines()
    assert (said.returncode, moved) == (0, "client has lte as its active uplink")
    assert hands == "no agent can move its connections: none of its connections was ordered to move"
    assert "client    home     single*  lte" in bicast("status").stdout
    bicast("switch", "client", "wifi")
    bicast("mode", "client", "bicast")
    assert groups(BRIDGE) == before


def test_a_mode_for_a_hung_switch_is_reported_unconfirmed(paper: GatewayLab, wish: PeopleOverrides) -> None:
    (pid,) = (each.pid for each in ovs.needed() if each.name == "ovs-vswitchd")
    before = groups(BRIDGE)
    os.kill(pid, signal.SIGSTOP)
    try:
        said = bicast("mode", "client", "single")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (said.returncode, said.stdout) == (4, "client is in mode single\n")
    unconfirmed = "the change was sent to gateway home, whose switch has not confirmed it within 2 s"
    lost = "gateway home: the switch disconnected before it answered"  # a slow machine misses its echo requests first
    assert unconfirmed in said.stderr or lost in said.stderr
    # A switch that missed its echo requests connects again first.
    until(
        lambda: bicast("mode", "client", "single").stdout == "client is already in mode single\n",
        "the switch is connected and the mode is known",
    )
    until(lambda: groups(BRIDGE) != before, "the groups hold the new mode")
