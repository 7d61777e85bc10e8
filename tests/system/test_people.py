"""The commands for people, against the controller as it runs."""

from __future__ import annotations

import json
import os
import signal

import pytest

from lab.stage import ovs
from lab.stage.command import Done, run
from tests.system.conftest import Home, Wishes
from tests.system.evidence import groups, pings
from topologies.paper import BRIDGE, SERVER


def bicast(*words: str) -> Done:
    return run("./bicast", *words, check=False)


def test_status_shows_what_is_and_what_passed(paper: Home) -> None:
    pings(paper.net.machine("client"), "192.168.110.3", SERVER)
    shown = bicast("status")
    assert shown.returncode == 0
    assert "!" not in shown.stdout
    assert "0000000000000001  steady" in shown.stdout
    told = json.loads(bicast("status", "--json").stdout)
    assert [uplink["up"] for uplink in told["gateways"][0]["uplinks"]] == [True, True]
    asked = paper.controller.client.get("status")
    assert told["terminals"][0]["addresses"] == asked["terminals"][0]["addresses"]
    assert told["gateways"][0]["groups"][0]["label"] == asked["gateways"][0]["groups"][0]["label"]


def test_mode_and_switch_change_the_groups_and_say_so(paper: Home, wish: Wishes) -> None:
    before = groups(BRIDGE)
    said = bicast("mode", "client", "single")
    assert (said.returncode, said.stdout) == (0, "client is in mode single\n")
    assert groups(BRIDGE) != before
    assert bicast("mode", "all", "single").stdout == "client is already in mode single\n"
    said = bicast("switch", "client", "lte")
    moved, hands = said.stdout.splitlines()
    assert (said.returncode, moved) == (0, "client has lte as its active uplink")
    assert hands == "no agent reaches its connections: none of its connections was ordered to move"
    assert "client    home     single*  lte" in bicast("status").stdout
    bicast("switch", "client", "wifi")
    bicast("mode", "client", "bicast")
    assert groups(BRIDGE) == before


def test_who_asks_while_the_switch_stands_still_is_told_that_it_was_sent_alone(paper: Home, wish: Wishes) -> None:
    (pid,) = (each.pid for each in ovs.needed() if each.name == "ovs-vswitchd")
    before = groups(BRIDGE)
    os.kill(pid, signal.SIGSTOP)
    try:
        said = bicast("mode", "client", "single")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (said.returncode, said.stdout) == (4, "client is in mode single\n")
    assert "it was sent to gateway home, whose switch has not confirmed it within 2 s" in said.stderr
    again = bicast("mode", "client", "single")
    assert (again.returncode, again.stdout) == (0, "client is already in mode single\n")
    assert groups(BRIDGE) != before


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("mode", "nobody", "single"), 1, "no terminal is named 'nobody'; there are: client"),
        (("switch", "client", "dsl"), 1, "has no uplink named 'dsl'; it has: wifi, lte"),
        (("mode", "client", "sideways"), 2, "invalid choice: 'sideways'"),
        (("status", "--api", "127.0.0.1:1"), 3, "no controller answers"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(paper: Home, words: tuple[str, ...], code: int, says: str) -> None:
    before = groups(BRIDGE)
    done = bicast(*words)
    assert done.returncode == code
    assert says in done.stderr
    assert done.stdout == ""
    assert groups(BRIDGE) == before


def test_the_program_that_is_told_is_the_one_installed(paper: Home) -> None:
    told = paper.controller.client.get("gateways", "home", "program")
    assert len(told["groups"]) == len(groups(BRIDGE))
