# SPDX-License-Identifier: Apache-2.0
"""Terminals share an access point with real agents, sockets and Open vSwitch: caps hold, and end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.processes.agents import agent
from lab.stage.command import run
from lab.traffic.streaming import PORT as STREAM_PORT
from lab.traffic.streaming import streaming
from tests.system.evidence import SLOWNESS, until
from tests.system.shared_air import (
    CONTROL,
    DEVICE,
    LAPTOPS,
    NEAR,
    PHONES,
    SERVER,
    SITE,
    WINDOW,
    AccessPointLab,
    controls,
    programs_at,
    shared,
)
from topologies.access_point import AIR_BPS, RTTS_MS

JOINED_WITHIN_S = 4.0 * SLOWNESS  # one second is promised; the rest allows for a busy machine
SEGMENT_BITS = 12_000
WAY_MS = RTTS_MS[NEAR]
LONGEST_MS = 1.5 * WAY_MS  # the minimum of some round trips on a busy machine


@pytest.fixture(scope="module")
def shared_air(place: Path) -> Iterator[AccessPointLab]:
    with shared(place) as air:
        yield air


@pytest.fixture
def air(shared_air: AccessPointLab) -> Iterator[AccessPointLab]:
    shared_air.forget()
    yield shared_air
    shared_air.revive()


def fitting(rtt_ms: float, active: int) -> int:
    """Return the segments that fit for each sender."""
    return -(-int(AIR_BPS * rtt_ms / 1000) // (SEGMENT_BITS * active)) + 1


@pytest.mark.timed
@pytest.mark.parametrize(("terminals", "hand"), [(LAPTOPS, CONTROL), (PHONES, WINDOW)])
def test_caps_split_the_air_and_grow_when_an_upload_ends(
    air: AccessPointLab, terminals: tuple[str, str], hand: str
) -> None:
    first, second = terminals
    with air.held_uploads(**dict.fromkeys(terminals, hand)) as sending:
        for name in terminals:
            until(lambda name=name: "ideal: 2 active" in line_of("caps", name), f"`caps` tells of {name} and another")
            assert f"({hand})" in line_of("caps", name)
            until(lambda name=name: air.kept(name, hand), f"{name} never has more on its way")
        most = {name: air.bounds(name)[1] for name in terminals}
        for name in terminals:
            until(lambda name=name: all(each.srtt_ms <= 3 * each.least_rtt_ms for each in air.lines(name)), "no queue")
            assert fitting(WAY_MS, 2) <= most[name] <= fitting(LONGEST_MS, 2)
        sending[second].finish()
        until(lambda: air.bounds(first)[1] >= 1.7 * most[first], f"{second}'s part is {first}'s", JOINED_WITHIN_S)
        until(lambda: air.held(first, hand) and air.in_flight(first, hand) > most[first], "it is taken")
        assert air.view(second)["active"] is False


def line_of(verb: str, terminal: str) -> str:
    """Return the terminal's line in the output of a verb."""
    said = run("./bicast", verb).stdout
    found = re.search(rf"^{terminal} .*$", said, re.MULTILINE)
    assert found, said
    return found[0]


@pytest.mark.timed
def test_caps_end_when_an_agent_is_killed_and_then_return(air: AccessPointLab) -> None:
    with air.held_uploads(t1=CONTROL, t3=WINDOW):
        own = air.lines("t1")[0].control
        most = max(air.bounds(name)[1] for name in ("t1", "t3"))

        air.agents["t1"].kill()
        until(
            lambda: own not in controls(air.net.machine("t1")), "the killed agent's congestion control is known no more"
        )
        air.await_held("t1", WINDOW)  # by the gateway's agent, which saw its handshake
        until(lambda: bool(air.view("t1")["agent"] == SITE), "the gateway's agent has taken t1 over")

        air.agents[SITE].kill()
        until(lambda: programs_at(DEVICE) == 0, "nothing is left of the killed gateway's agent")
        for name in ("t1", "t3"):
            air.await_free(name, WINDOW, most)
            air.await_moving(name)
        until(lambda: air.in_flight("t1", CONTROL) > most, "its window is its own again")

        air.agents[SITE].start()
        air.agents["t1"].start()
        air.await_held("t1", CONTROL)
        until(lambda: "opened before" in air.view("t3")["reason"], "t3 is left as is, and told so")
        assert not air.view("t3")["held"]


@pytest.mark.timed
def test_caps_end_and_return_with_the_controller(air: AccessPointLab) -> None:
    with air.held_uploads(t1=CONTROL, t3=WINDOW):
        most = {name: air.bounds(name)[1] for name in ("t1", "t3")}
        air.controller.kill()
        air.await_free("t1", CONTROL, most["t1"])
        air.await_free("t3", WINDOW, most["t3"])
        for name in most:
            air.await_moving(name)
        air.controller.start()
        air.await_held("t1", CONTROL)
        air.await_held("t3", WINDOW)


@pytest.fixture
def ruled(air: AccessPointLab) -> Iterator[AccessPointLab]:
    """Yield the access point, and restore the rule after the test."""
    yield air
    air.set_rule("ideal")
    until(lambda: programs_at(DEVICE) == 2, "the gateway's agent sees what passes again")


@pytest.mark.timed
def test_a_new_rule_acts_at_once_and_off_removes_all_caps(ruled: AccessPointLab) -> None:
    air = ruled
    air.set_rule("off")
    with air.ready("t1", "t3") as sending:
        sending["t1"].go()
        until(lambda: air.in_flight("t1", CONTROL) > 100, "nobody holds an upload that begins")
        air.set_rule("ideal")
        air.await_held("t1", CONTROL)
        sending["t3"].go()
        air.await_held("t3", WINDOW)
        ideal = air.bounds("t1")[1]
        air.set_rule("paper")
        for name, hand in (("t1", CONTROL), ("t3", WINDOW)):
            until(lambda name=name: "paper (jb): 2 active" in air.view(name)["reason"], f"{name} is in the tables")
            air.await_held(name, hand)
        most = {name: air.bounds(name)[1] for name in ("t1", "t3")}
        assert most["t1"] != ideal
        air.set_rule("off")
        until(lambda: air.lines("t1")[0].control == "cubic", "t1 has its own congestion control again")
        until(lambda: programs_at(DEVICE) == 0, "the gateway's programs are gone")
        air.await_free("t1", CONTROL, most["t1"])
        air.await_free("t3", WINDOW, most["t3"])
        assert "is off" in line_of("caps", "t1")


def warned(beginning: str) -> str:
    """Return the warnings of `status` that begin like this."""
    return "\n".join(re.findall(rf"^! .*{beginning}.*$", run("./bicast", "status").stdout, re.MULTILINE))


def test_a_second_agent_of_a_host_enforces_nothing(air: AccessPointLab) -> None:
    terminal = PHONES[0]
    machine = air.net.machine(terminal)
    with agent(air.controller, machine, terminal, "terminal"), air.held_uploads(**{terminal: CONTROL}):
        with agent(air.controller, machine, "stranger", "terminal"):
            assert air.view(terminal)["agent"] == terminal
            told = air.controller.client.get("status")["agents"]
            (why_not,) = next(one for one in told if one["name"] == "stranger")["missing"]
            assert why_not["reason"] == "it was enrolled for the terminal stranger, which gateway.yaml does not have"
        air.controller.client.revoke(terminal)  # it still runs, and holds the sockets
        with agent(air.controller, machine, terminal, "terminal"):
            beginning = f"{SITE} enforces the cap of {terminal}"
            until(lambda: "another agent holds" in warned(beginning), "the second's refusal is shown")
            air.await_held(terminal, WINDOW)


@pytest.mark.parametrize(("terminal", "hand"), [("t1", CONTROL), ("t3", WINDOW)])
def test_subflows_of_one_connection_share_a_cap(air: AccessPointLab, terminal: str, hand: str) -> None:
    with streaming(air.net.machine(NEAR), air.net.machine(terminal), SERVER, upload=True) as stream:
        stream.await_flowing()
        until(lambda: len(air.lines(terminal, STREAM_PORT)) == 2, "there are two subflows")
        until(lambda: len(air.view(terminal)["windows"]) == 2, "both have a cap")
        air.await_held(terminal, hand, STREAM_PORT)
        assert air.view(terminal)["connections"] == 1
        assert stream.finish().whole
