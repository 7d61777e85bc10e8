# SPDX-License-Identifier: Apache-2.0
"""Backup flags of a host's owner return when steering ends: a costly path is never made active without notice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.features.steering.terminal import AGAIN_AFTER_S, SEEN_AFTER_S
from controller.model.in_force import InForce
from controller.model.overrides import Overrides
from controller.policy.paths.uplink_choice import RETURN_AFTER_S
from tests.controller.features.steering.test_manager import LTE, WIFI, WIFI6, SteeringScenario, backups, prefers
from tests.fakes.host import FakeConnection, FakeHost

SERVER = "198.51.100.1"
AS_OWNED = {WIFI: (False, False), LTE: (True, False)}


def owned(scene: SteeringScenario) -> tuple[FakeHost, FakeConnection]:
    """Return a terminal whose owner keeps LTE as backup."""
    client, connection = scene.client(), scene.connection(SERVER)
    connection.subflows[1].terminal.backup = True
    scene.second()
    return client, connection


@pytest.mark.parametrize("restarts", [False, True], ids=["", "after a restart"])
@pytest.mark.parametrize("wishes", [("lte",), ("wifi",), ("lte", "wifi", "lte")])
def test_auto_restores_the_owners_backup_flags(wishes: tuple[str, ...], restarts: bool) -> None:
    """After a restart only the default is active."""
    scene = SteeringScenario()
    _, connection = owned(scene)
    for uplink in wishes:
        scene.switch_to(uplink)
        scene.second()
    if restarts:
        scene.restart()
        scene.second()
    _, entries = scene.switch_to("auto")
    assert backups(connection) == AS_OWNED and (restarts or entries[0].agents["client"].done)


def test_flags_set_by_the_owner_during_off_are_restored() -> None:
    scene = SteeringScenario(mode="off")
    _, connection = scene.client(), scene.connection(SERVER)
    scene.second()
    scene.switch_to("lte")
    scene.switch_to("auto")
    for _ in range(int(SEEN_AFTER_S) + 3):
        connection.subflows[1].terminal.backup = True
        scene.second()
    scene.switch_to("lte")
    scene.switch_to("auto")
    assert backups(connection) == AS_OWNED


def test_report_in_flight_is_not_taken_for_the_owners_flags() -> None:
    scene = SteeringScenario()
    client, connection = owned(scene)
    scene.switch_to("lte")
    late = client.report()
    scene.switch_to("auto")
    scene.tell(late)
    scene.tell(replace(late, sequence=late.sequence + 1))
    scene.drain()
    scene.switch_to("lte")
    scene.switch_to("auto")
    assert backups(connection) == AS_OWNED


def test_unknown_path_stays_backup_after_auto_with_a_note() -> None:
    scene = SteeringScenario()
    client = scene.client()
    scene.second()
    scene.switch_to("lte")
    _, entries = scene.switch_to("auto")
    order = prefers(client)[-1]
    assert order.path == (WIFI, WIFI6) and order.others == ((LTE,),)
    assert "lte stays backup at client: its earlier flag is not known" in entries[0].reason


def test_new_agent_that_did_not_follow_shows_its_owners_flags() -> None:
    scene = SteeringScenario(InForce(Overrides(active={"client": "lte"})))
    _, connection = scene.client(), scene.connection(SERVER)
    scene.second()
    assert backups(connection) == {WIFI: (True, False), LTE: (False, False)}
    scene.switch_to("auto")
    assert backups(connection) == {WIFI: (False, False), LTE: (False, False)}


def test_absent_agent_restores_flags_when_it_returns() -> None:
    scene = SteeringScenario()
    client, connection = owned(scene)
    scene.switch_to("lte")
    scene.leave(client)
    scene.switch_to("auto")
    scene.join(client)
    scene.second()
    assert backups(connection) == AS_OWNED
    before = len(prefers(client))
    for _ in range(100):
        scene.second()
    assert len(prefers(client)) == before


def test_failed_restore_is_repeated_at_intervals() -> None:
    scene = SteeringScenario()
    client, connection = owned(scene)
    scene.switch_to("lte")
    client.unable = "its Wi-Fi has no address now"
    scene.switch_to("auto")
    before = len(prefers(client))
    for _ in range(int(AGAIN_AFTER_S) - 1):
        scene.second()
    assert len(prefers(client)) == before
    client.unable = None
    for _ in range(2):
        scene.second()
    assert len(prefers(client)) == before + 1 and backups(connection) == AS_OWNED


def test_flags_of_a_failover_are_not_taken_for_the_owners() -> None:
    scene = SteeringScenario()
    client, connection = owned(scene)
    scene.downloads(2)
    fired = client.fires("client", 200)
    scene.tell(client.report())  # arrived before the failover message
    scene.tell(fired)
    scene.drain()
    connection.subflows.append(FakeConnection.between(SERVER, WIFI).subflows[0])  # the kernel opens it again
    connection.subflows[-1].terminal.backup = True
    scene.switch_to("lte")
    for _ in range(int(RETURN_AFTER_S) + 15):  # until Wi-Fi counts as good again
        scene.second()
    scene.switch_to("auto")
    assert scene.active == "wifi" and backups(connection) == AS_OWNED


def test_auto_sends_no_order_to_an_end_that_was_not_moved() -> None:
    scene = SteeringScenario()
    relay, client, _ = scene.relay(), scene.client(), scene.connection()
    scene.second()
    scene.switch_to("lte")
    scene.second()
    scene.switch_to("auto")
    assert len(prefers(relay)) == 2 and not prefers(client)
