# SPDX-License-Identifier: Apache-2.0
"""Ownership of terminals: agents that claim another's terminal, failovers that were never armed, false evidence."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from controller.agents.agent import GONE_AFTER_S, Agent
from controller.features.steering.arms import CROSSED_S
from controller.features.steering.logbook import By
from controller.policy.paths.health import UplinkHealth
from controller.policy.paths.uplink_choice import MOST_MOVES, MOVES_WITHIN_S
from controller.protocol.orders import Disarm
from controller.protocol.reports import FailoverFired, Role
from controller.readout.why import agent_view, course
from tests.controller.features.steering.test_manager import (
    LTE,
    RELAY_ADDRESS,
    WIFI,
    WIFI6,
    SteeringScenario,
    arms,
    downloading,
    prefers,
)
from tests.fakes.host import FakeConnection, FakeHost

PHONE = "10.1.0.7"
SERVER = "198.51.100.1"


def agent(scene: SteeringScenario, name: str) -> Agent:
    return scene.core.agents.known[name]


def concerns(scene: SteeringScenario, name: str) -> frozenset[str]:
    return scene.core.steering.movers[name].concerns


moments = count(1)


def false_failover(host: FakeHost, terminal: str = "client") -> FailoverFired:
    return FailoverFired(host.session, terminal, "it fired", 500, 1, next(moments))


def doubt_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "not armed there" in record.getMessage()]


# A terminal and the agents that claim it


def guest_downloading() -> tuple[SteeringScenario, FakeHost]:
    """Return a guest that speaks for the terminal, and has reported a download for two seconds."""
    scene = SteeringScenario()
    guest, _ = scene.client("guest", terminal="client"), scene.connection(SERVER)
    scene.downloads(2)
    return scene, guest


def test_named_agent_takes_its_terminal_from_a_guest() -> None:
    scene, guest = guest_downloading()
    assert agent(scene, "guest").owns == ("client",) and guest.armed
    client = scene.client()
    scene.drain()
    assert not guest.armed and guest.orders[-1] == Disarm("client")
    scene.downloads(2)
    assert concerns(scene, "client") == {"client"} and client.armed
    assert not concerns(scene, "guest") and not guest.armed
    missing = agent_view(scene.core, agent(scene, "guest"), 0.0).missing
    assert [each.reason for each in missing] == [
        "it has addresses of the terminal client, and the agent client already speaks for that terminal"
    ]
    scene.switch_to("lte")
    assert len(prefers(client)) == 1 and not prefers(guest)


def test_failover_of_a_guest_is_ignored_after_the_owner_joins(caplog: pytest.LogCaptureFixture) -> None:
    scene, guest = guest_downloading()
    fired = guest.fires("client", 200)
    scene.client()
    scene.tell(fired)
    scene.drain()
    assert scene.active == "wifi" and not scene.entries() and len(doubt_lines(caplog)) == 1


def test_guest_owns_the_terminal_after_the_owner_leaves() -> None:
    """Reports from before the change of owner do not count."""
    scene = SteeringScenario()
    client, connection = scene.client(), scene.connection(SERVER)
    guest = scene.client("guest", terminal="client")
    scene.second()
    for subflow in connection.subflows:
        subflow.terminal.segments_sent, subflow.terminal.retransmits = 1000, 900
    scene.second(client)
    scene.leave(client)
    assert agent(scene, "guest").owns == ("client",) and agent(scene, "guest").owns_nobody is None
    scene.second()
    assert concerns(scene, "guest") == {"client"} and guest.armed
    assert not scene.core.steering.steered["client"].paths["wifi"].window, "sent before it owned the terminal"


def test_silent_owner_still_owns_its_terminal() -> None:
    scene = SteeringScenario()
    scene.client()
    guest = scene.client("guest", terminal="client")
    for _ in range(int(GONE_AFTER_S) + 2):
        scene.second(guest)
    assert agent(scene, "client").silent and not concerns(scene, "guest")


def test_first_of_two_guests_keeps_the_terminal() -> None:
    scene = SteeringScenario()
    first, second = (scene.client(name, terminal="client") for name in ("a-guest", "an-earlier-letter"))
    scene.second()
    assert concerns(scene, "a-guest") == {"client"} and not concerns(scene, "an-earlier-letter")
    assert "the agent a-guest, which connected first, already speaks for that terminal" in (
        agent(scene, "an-earlier-letter").owns_nobody or ""
    )
    scene.leave(first)
    scene.second()
    assert concerns(scene, "an-earlier-letter") == {"client"}
    scene.join(first)
    scene.second()
    assert concerns(scene, "an-earlier-letter") == {"client"} and not concerns(scene, "a-guest")
    scene.leave(second)
    assert agent(scene, "a-guest").owns == ("client",)


def test_agent_owns_only_the_terminal_of_its_enrolment() -> None:
    scene = SteeringScenario()
    scene.join(FakeHost("phone", Role.TERMINAL, (WIFI, LTE, PHONE), scene.world))
    thief = FakeHost("thief", Role.TERMINAL, (WIFI, LTE), scene.world, terminal="phone")
    scene.join(thief)
    guest, _ = scene.client("guest"), scene.connection(SERVER)
    scene.downloads(2)
    assert concerns(scene, "phone") == {"phone"} and agent(scene, "phone").owns_nobody is None
    assert not any(concerns(scene, each.name) or each.armed for each in (guest, thief))
    assert agent(scene, "guest").owns_nobody == (
        "it was enrolled for the terminal guest, which gateway.yaml does not have"
    )
    assert "belongs to the terminal phone" in (agent(scene, "thief").owns_nobody or "")


@pytest.mark.parametrize("goes", ["was never there", "is gone"])
def test_guest_decides_nothing_while_the_owner_is_away(goes: str) -> None:
    scene = SteeringScenario(mode="auto")
    if goes == "is gone":
        scene.leave(scene.client())
    guest = scene.client("guest")
    for server in (SERVER, "198.51.100.2"):
        scene.connection(server)
    before = (scene.active, scene.core.decisions.copies, scene.entries())
    for _ in range(20):
        for connection in scene.world:
            for subflow in connection.subflows:
                subflow.terminal.segments_sent += 100
                subflow.terminal.retransmits += 30
                subflow.terminal.bytes_acked += 70_000
        scene.second()
    assert (scene.active, scene.core.decisions.copies, scene.entries()) == before
    assert not guest.armed and not prefers(guest)


def test_enrolled_agent_is_the_terminal_and_no_relay_of_its_name() -> None:
    scene = SteeringScenario()
    laptop = FakeHost("laptop", Role.TERMINAL, (LTE,), scene.world, terminal="client")  # its Wi-Fi comes up later
    scene.join(laptop)
    scene.join(FakeHost("client", Role.RELAY, (WIFI, "203.0.113.9"), scene.world))
    scene.second()
    assert concerns(scene, "laptop") == {"client"} and agent(scene, "laptop").homes.keys() == {WIFI, LTE, WIFI6}


def test_guest_that_returns_armed_is_disarmed() -> None:
    scene, guest = guest_downloading()
    scene.leave(guest)
    scene.client()
    scene.join(guest)
    scene.drain()
    assert not guest.armed and guest.orders[-1] == Disarm("client")


# Armed failovers that fired, and others


def test_failover_counts_once_when_reported_repeatedly(caplog: pytest.LogCaptureFixture) -> None:
    scene, relay, _ = downloading()
    scene.tell(relay.fires("client", 160))
    scene.drain()
    for name in ("client", "phone", "nobody") * 20:
        scene.tell(false_failover(relay, name))
    scene.drain()
    assert scene.active == "lte" and len(scene.entries()) == 1 and len(doubt_lines(caplog)) == 1
    assert not scene.core.steering.logbook.entries("phone")


def only_plain_tcp(scene: SteeringScenario) -> None:
    """Leave only plain TCP, which agents report but for which no failover can be armed."""
    scene.world[:] = [FakeConnection.between(RELAY_ADDRESS, WIFI, LTE)]
    scene.world[0].token = 0


def test_one_failover_is_accepted_after_a_controller_restart() -> None:
    scene, relay, _ = downloading()
    scene.restart()
    fired = relay.fires("client", 200)
    only_plain_tcp(scene)
    scene.downloads(1)
    assert len(arms(relay)) == 1 and scene.active == "wifi"
    scene.tell(replace(fired, session=relay.session))
    assert scene.active == "lte" and len(scene.entries()) == 1
    scene.downloads(1)
    assert scene.health("wifi") is not UplinkHealth.DEAD
    before = len(scene.entries())
    scene.tell(false_failover(relay))
    assert len(scene.entries()) == before


def test_failover_that_crosses_its_disarm_is_accepted_briefly() -> None:
    for late, told in ((CROSSED_S - 0.1, 1), (CROSSED_S + 0.1, 0)):
        scene, relay, _ = downloading()
        fired = relay.fires("client", 160)
        scene.up("lte0", False)  # no fallback is left
        scene.drain()
        assert relay.orders[-1] == Disarm("client")
        scene.now += late
        scene.tell(fired)
        assert len([each for each in scene.entries() if each.by is By.FAILOVER]) == told


def test_failover_that_crosses_a_move_is_not_the_next_one() -> None:
    scene = SteeringScenario()
    relay, connection = scene.relay(), scene.connection()
    connection.subflows[1].server.backup = True
    scene.downloads(2)
    while scene.active == "wifi":
        scene.drain()
        connection.download(100, loss=0.2)
        scene.pass_time(1.0)
        scene.tell(relay.report())
    scene.tell(relay.fires("client", 160))  # the orders are in flight
    scene.drain()
    assert (
        scene.active == "lte"
        and scene.health("wifi") is UplinkHealth.DEAD
        and scene.health("lte") is not UplinkHealth.DEAD
    )
    assert [each.by for each in scene.entries()] == [By.FAILOVER, By.POLICY]
    assert scene.entries()[0].gateway.answer == "nothing moved: lte was chosen in the meantime"


def test_repeated_false_failovers_are_rate_limited() -> None:
    scene = SteeringScenario()
    relay, _ = scene.relay(), scene.connection()
    scene.connection(relay.addresses[0], WIFI6, LTE)
    moved: list[float] = []
    for _ in range(400):
        for connection in scene.world:
            for subflow in connection.subflows:
                subflow.server.segments_sent += 100
                subflow.server.bytes_acked += 100_000
        scene.pass_time(0.1)
        scene.tell(relay.report(interval_ms=1))
        scene.drain()
        if relay.armed.pop("client", None):
            scene.tell(false_failover(relay))
            scene.drain()
        moves = [entry.at for entry in reversed(scene.entries()) if entry.left != entry.uplink]
        moved += [at for at in moves if at not in moved]
    assert moved[0] < 1.0 and len(moved) >= 2 * MOST_MOVES
    assert all(later - sooner >= MOVES_WITHIN_S for sooner, later in zip(moved, moved[MOST_MOVES:], strict=False))


def test_failover_of_a_lost_agent_shows_the_end_of_its_lease() -> None:
    scene = SteeringScenario()
    client, _ = scene.client(), scene.connection(SERVER)
    scene.downloads(2)
    armed_at = scene.now
    scene.leave(client)
    view = course(scene.core, "client", scene.now, 1000.0)
    (one,) = view.armed_failovers
    assert one.away == "disconnected (the test ended it)" and armed_at + 999.0 <= one.until <= armed_at + 1030.0
    assert view.own_end.nobody == "agent client disconnected (the test ended it)" and not view.own_end.agents
    scene.pass_time(31.0)
    assert not course(scene.core, "client", scene.now, 0.0).armed_failovers
