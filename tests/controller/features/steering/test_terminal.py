# SPDX-License-Identifier: Apache-2.0
"""What a host's owner has flagged as backup comes back when nobody steers any more: a path that costs money is not made
active in silence."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.features.steering.terminal import AGAIN_AFTER_S, SEEN_AFTER_S, OriginalBackupFlags
from controller.model.known import Wanted
from controller.policy.paths.uplink_choice import RETURN_AFTER_S
from tests.controller.features.steering.test_manager import LTE, WIFI, WIFI6, Scene, backups, prefers
from tests.fakes.hand import FakeConnection, FakeHand

SERVER = "198.51.100.1"
AS_OWNED = {WIFI: (False, False), LTE: (True, False)}


def owned(scene: Scene) -> tuple[FakeHand, FakeConnection]:
    """A terminal whose owner keeps LTE for need."""
    client, connection = scene.client(), scene.connection(SERVER)
    connection.subflows[1].terminal.backup = True
    scene.second()
    return client, connection


def test_auto_gives_back_what_the_owner_had_as_backup() -> None:
    for wishes in (("lte",), ("wifi",), ("lte", "wifi", "lte")):
        scene = Scene()
        _, connection = owned(scene)
        for uplink in wishes:
            scene.switch_to(uplink)
            scene.second()
        _, entries = scene.switch_to("auto")
        assert backups(connection) == AS_OWNED and entries[0].hands["client"].done


def test_what_the_owner_flags_while_nobody_steers_is_what_comes_back() -> None:
    scene = Scene(mode="off")
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


def test_a_report_that_was_on_its_way_as_flags_were_given_back_is_not_the_owners_word() -> None:
    scene = Scene()
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


def test_of_a_path_that_nobody_told_of_before_it_stays_backup_and_that_is_said() -> None:
    scene = Scene()
    client = scene.client()
    scene.second()
    scene.switch_to("lte")
    _, entries = scene.switch_to("auto")
    order = prefers(client)[-1]
    assert order.path == (WIFI, WIFI6) and order.others == ((LTE,),)
    assert "lte stays backup at client: whether it was before is not known" in entries[0].reason


def test_after_our_restart_auto_makes_no_path_active_but_the_default() -> None:
    scene = Scene()
    _, connection = owned(scene)
    scene.switch_to("lte")
    scene.restart()
    scene.second()
    scene.switch_to("auto")
    assert backups(connection) == AS_OWNED


def test_an_agent_that_comes_under_a_choice_and_has_not_followed_it_shows_its_owners_flags() -> None:
    scene = Scene(Wanted(active={"client": "lte"}))
    _, connection = scene.client(), scene.connection(SERVER)
    scene.second()
    assert backups(connection) == {WIFI: (True, False), LTE: (False, False)}
    scene.switch_to("auto")
    assert backups(connection) == {WIFI: (False, False), LTE: (False, False)}


def test_who_was_away_at_auto_gets_its_flags_back_when_it_is_there_again() -> None:
    scene = Scene()
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


def test_who_could_not_take_its_flags_back_is_asked_again_and_not_every_second() -> None:
    scene = Scene()
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


def test_flags_that_a_reflex_left_are_not_taken_for_the_owners() -> None:
    scene = Scene()
    client, connection = owned(scene)
    scene.downloads(2)
    fired = client.fires("client", 200)
    scene.tell(client.report())  # overtook the word of it
    scene.tell(fired)
    scene.drain()
    connection.subflows.append(FakeConnection.between(SERVER, WIFI).subflows[0])  # the kernel opens it again
    connection.subflows[-1].terminal.backup = True
    scene.switch_to("lte")
    for _ in range(int(RETURN_AFTER_S) + 15):  # until nothing is held against Wi-Fi any more
        scene.second()
    scene.switch_to("auto")
    assert scene.active == "wifi" and backups(connection) == AS_OWNED


def test_auto_orders_nothing_at_an_end_that_was_not_moved() -> None:
    scene = Scene()
    relay, client, _ = scene.relay(), scene.client(), scene.connection()
    scene.second()
    scene.switch_to("lte")
    scene.second()
    scene.switch_to("auto")
    assert len(prefers(relay)) == 2 and not prefers(client)


@given(
    st.lists(st.sampled_from(["wifi", "lte", "dsl"]), unique=True, min_size=2),
    st.dictionaries(st.sampled_from(["wifi", "lte", "dsl"]), st.booleans()),
    st.booleans(),
)
def test_never_is_everything_backup_nor_a_path_active_that_is_neither_known_nor_default(
    names: list[str], known: dict[str, bool], at_terminal: bool
) -> None:
    found = OriginalBackupFlags()
    found._last = known
    backup = found.backup(names, "wifi", at_terminal)
    active = set(names) - set(backup)
    assert active and set(backup) <= set(names)
    if at_terminal and active != {names[0]}:
        assert all(name == "wifi" or known.get(name) is False for name in active)
