# SPDX-License-Identifier: Apache-2.0
"""A server's report of a terminal's connections counts if the terminal's own site reports them too."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from controller.agents.ownership import AT_RANDOM, GUESSES_KEPT_S, KEPT_S, TIMES, proved_addresses
from controller.model.overrides import RelayOverride
from controller.policy.paths.health import UplinkHealth
from controller.protocol.reports import Role
from controller.readout.why import agent_view, course
from tests.controller import sites
from tests.controller.features.steering.test_manager import LTE, RELAY_ADDRESS, WIFI, SteeringScenario, prefers
from tests.fakes.host import FakeConnection, FakeHost

GUEST = "198.51.100.66"


def server(scene: SteeringScenario, name: str = "www", address: str = RELAY_ADDRESS, **more: object) -> FakeHost:
    return scene._agent(name, Role.RELAY, (address,), **more)


def unlisted() -> SteeringScenario:
    return SteeringScenario(written={**sites.document(), "servers": []})


def lose(scene: SteeringScenario, world: list[FakeConnection], seconds: int) -> None:
    for _ in range(seconds):
        for connection in world:
            connection.download(100, loss=0.3)
        scene.second()


def test_server_with_invented_connections_moves_no_terminal() -> None:
    scene = unlisted()
    client = scene.client()
    scene.connection("192.0.2.80").subflows[1].terminal.backup = True
    invented = [FakeConnection.between(GUEST, WIFI, LTE) for _ in range(4)]
    guest = FakeHost("guest", Role.RELAY, (GUEST,), invented)
    scene.join(guest)
    lose(scene, invented, 40)
    assert scene.active == "wifi" and not scene.entries() and scene.health("wifi") is UplinkHealth.UNKNOWN
    assert not prefers(guest) and not guest.armed and client.armed
    (why_not,) = (each.reason for each in agent_view(scene.core, scene.core.agents.known["guest"], 0.0).missing)
    assert "report the same connections" in why_not and "`servers`" in why_not
    assert "guest" in (course(scene.core, "client", scene.now, 0.0).other_end.nobody or "")


def test_loss_reported_by_both_ends_moves_the_terminal() -> None:
    scene = unlisted()
    client, www = scene.client(), server(scene)
    connection = scene.connection()
    connection.subflows[1].terminal.backup = True
    scene.downloads(2)
    assert scene.core.steering.movers["www"].concerns == {"client"}
    for _ in range(4):
        connection.download(100, loss=0.3)
        scene.second()
    assert scene.active == "lte" and prefers(client) and not prefers(www) and not www.armed
    (entry,) = scene.entries()
    assert "wifi is lossy" in entry.reason and entry.reporters == ("www",), "the end that sends"


def test_server_report_expires_when_its_only_witness_leaves() -> None:
    scene = unlisted()
    client, connection = scene.client(), scene.connection()
    server(scene)
    connection.subflows[1].terminal.backup = True
    scene.downloads(3)
    scene.leave(client)
    scene.pass_time(KEPT_S)
    lose(scene, [connection], 10)
    assert scene.active == "wifi" and not scene.core.steering.movers["www"].concerns
    assert scene.core.agents.known["www"].unconfirmed == {"client"}


def test_server_counts_from_before_the_witness_are_ignored() -> None:
    scene = unlisted()
    server(scene)
    connection = scene.connection()
    for _ in range(5):
        connection.download(1000, loss=0.3)
        scene.second()
    scene.client()
    scene.downloads(3)
    assert scene.health("wifi") is not UplinkHealth.LOSSY


def guesses(count: int, *, hit: int | None = None) -> list[FakeConnection]:
    """Invent connections of the terminal with the server; one of them has the port `hit`."""
    invented = [FakeConnection.between(RELAY_ADDRESS, WIFI) for _ in range(count)]
    if hit is not None:
        invented[0].subflows[0].port = hit
    return invented


def test_port_guesses_are_remembered_for_minutes_over_a_reconnect() -> None:
    scene = unlisted()
    scene.client()
    world = guesses(AT_RANDOM + TIMES + 1, hit=scene.connection().subflows[0].port)
    guest = FakeHost("www", Role.RELAY, (RELAY_ADDRESS,), world)
    scene.join(guest)
    lose(scene, world, 5)
    scene.leave(guest)
    del world[1:]
    scene.join(guest)
    lose(scene, world, int(GUESSES_KEPT_S) - 5)
    assert scene.core.agents.known["www"].unconfirmed == {"client"} and scene.active == "wifi"
    lose(scene, world, 10)
    assert not scene.core.agents.known["www"].unconfirmed and scene.active == "lte"


def test_server_that_guesses_new_ports_moves_no_terminal() -> None:
    """The server reports 24 ports at once, each for a few reports, until it hits the terminal's own port."""
    scene = unlisted()
    scene.client()
    port = scene.connection().subflows[0].port
    world: list[FakeConnection] = []
    scene.join(FakeHost("www", Role.RELAY, (RELAY_ADDRESS,), world))
    for _ in range(10):
        world[:] = guesses(AT_RANDOM + TIMES)
        lose(scene, world, 3)
    world[:] = guesses(AT_RANDOM + TIMES, hit=port)
    lose(scene, world, 10)
    assert scene.active == "wifi" and not scene.entries()


def test_short_connections_do_not_count_as_guesses() -> None:
    """Each short connection is in one report of the server and in none of the terminal."""
    scene = unlisted()
    scene.client()
    served = [scene.connection()]
    served[0].subflows[1].terminal.backup = True
    scene.join(FakeHost("www", Role.RELAY, (RELAY_ADDRESS,), served))
    for _ in range(20):
        served[1:] = guesses(10)
        lose(scene, [served[0]], 1)
    assert scene.active == "lte"


def test_server_reports_count_only_for_its_session_address() -> None:
    """The server repeats the terminal's reports and claims the address as its own."""
    scene = unlisted()
    scene.client()
    connection = scene.connection()
    connection.subflows[1].terminal.backup = True
    guest = FakeHost("www", Role.RELAY, (RELAY_ADDRESS,), scene.world, peer="198.51.100.66:40000")
    scene.join(guest)
    lose(scene, [connection], 10)
    assert scene.active == "wifi" and not scene.entries() and not prefers(guest)
    (reason,) = (each.reason for each in agent_view(scene.core, scene.core.agents.known["www"], 0.0).missing)
    assert "to www's address (198.51.100.66:40000)" in reason


@pytest.mark.parametrize(
    ("peer", "proved"),
    [
        ("198.51.100.66:5", {"198.51.100.66"}),
        ("[::ffff:198.51.100.66]:5", {"198.51.100.66"}),
        ("[2001:db8::1]:5", {"2001:db8::1"}),
        ("", set()),
    ],
)
def test_relay_has_its_session_address_and_that_of_relay_add(peer: str, proved: set[str]) -> None:
    assert proved_addresses(peer, None) == proved
    assert proved_addresses(peer, RelayOverride(ip_address("192.0.2.9"), 443)) == proved | {"192.0.2.9"}


def test_unlisted_server_moves_confirmed_connections() -> None:
    """It does so if the terminal's own agent cannot."""
    scene = unlisted()
    scene.client(unable="the kernel has no MPTCP")
    www, connection = server(scene), scene.connection("203.0.113.5", WIFI, LTE)
    connection.subflows[1].server.backup = True
    scene.downloads(2)
    scene.switch_to("lte")
    assert prefers(www)
