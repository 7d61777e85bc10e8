# SPDX-License-Identifier: Apache-2.0
"""A relayed terminal is reported by its host and moved by host and relay, in its name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core import overrides
from controller.features.caps.access_point import AccessPointState
from controller.features.copies.manager import UNHEARD_S
from controller.model.config import AUTO, CapRule
from controller.model.decisions import Decisions
from controller.model.in_force import InForce
from controller.protocol.orders import Prefer
from controller.protocol.reports import Role
from controller.readout.why import course
from tests.controller import relayed_site, sites
from tests.controller.core.test_core import all_answer
from tests.controller.pair import CoreAndSwitch
from tests.controller.relayed_site import PORTS
from tests.fakes.host import FakeConnection, FakeHost
from tests.fakes.switch import FakeSwitch

PHONE, BY_WIFI, BY_LTE = "10.1.0.7", "10.97.1.7", "10.97.2.7"
RELAY, EXCEPTED = "198.51.100.7", "203.0.113.9"
PATHS = {"wifi": (BY_WIFI, "fd00:971::7"), "lte": (BY_LTE, "fd00:972::7")}


class RelayedScenario(CoreAndSwitch):
    """A scene with `phone` on wifi, in mode single by default."""

    def __init__(self, mode: str = "single", in_force: InForce | None = None) -> None:
        written = relayed_site.document()
        phone = written["sites"]["home"]["terminals"]["phone"]
        phone |= {"mode": mode, "default_uplink": "wifi"}
        super().__init__(sites.loaded(written), [FakeSwitch(PORTS)], in_force)
        self.world: list[FakeConnection] = []
        self.connect()
        self.drain()
        all_answer(self)

    def host(self, name: str, role: Role, *addresses: str) -> FakeHost:
        host = FakeHost(name, role, addresses, self.world)
        self.join(host)
        return host

    def gateway(self) -> FakeHost:
        return self.host("home", Role.GATEWAY, "192.0.2.1", BY_WIFI, BY_LTE)

    def connection(self, server: str, *addresses: str) -> FakeConnection:
        self.world.append(FakeConnection.between(server, *addresses))
        return self.world[-1]

    def uploads(self, connection: FakeConnection, loss: float, seconds: int = 6) -> None:
        for _ in range(seconds):
            for end in (subflow.terminal for subflow in connection.carrying()):
                end.in_flight, end.since_ack_ms = 1, 1
                end.segments_sent, end.retransmits = end.segments_sent + 100, end.retransmits + int(100 * loss)
                end.bytes_acked += int(140_000 * (1 - loss))
            self.second()

    @property
    def active(self) -> str:
        site = self.switch().site
        return self.core.in_force.active_uplink(site, site.terminals[1])


def test_host_loss_towards_a_relay_moves_the_terminal() -> None:
    scene = RelayedScenario()
    scene.gateway()
    relay = scene.host("frankfurt", Role.RELAY, RELAY)
    connection = scene.connection(RELAY, BY_WIFI, BY_LTE)
    connection.subflows[1].server.backup = True
    scene.uploads(connection, loss=0.2)
    assert scene.active == "lte"
    seen = course(scene.core, "phone", scene.now, 0.0)
    assert (seen.own_end.agents, seen.other_end.agents) == (("home",), ("frankfurt",))
    assert [each for each in relay.orders if isinstance(each, Prefer)] == [
        Prefer(PATHS["lte"], (PATHS["wifi"],), hard=False)
    ]


def test_relayed_connection_prefers_the_default_uplink() -> None:
    scene = RelayedScenario()
    relay = scene.host("frankfurt", Role.RELAY, RELAY)
    connection = scene.connection(RELAY, BY_WIFI, BY_LTE)
    scene.second()
    assert [each.server.backup for each in connection.subflows] == [False, True]
    (entry,) = scene.core.steering.logbook.entries("phone")
    assert "this is its default" in entry.reason and entry.gateway.done
    nobody = course(scene.core, "phone", scene.now, 0.0).own_end.nobody
    assert nobody == "no gateway agent enrolled as home reports relayed connections"
    for uplink in ("lte", AUTO):
        _, effects, _ = overrides.active(scene.core, "phone", uplink, scene.now)
        scene.carry(effects)
        scene.drain()
        assert [each.server.backup for each in connection.subflows] == [uplink == "lte", uplink == AUTO]
    before = len(relay.orders)
    scene.second()
    scene.second()
    assert len(relay.orders) == before, "an order in force is not repeated"


@pytest.mark.parametrize(("server", "rides"), [("198.51.100.99", "wifi"), (EXCEPTED, "lte")])
def test_terminal_loss_counts_only_if_it_is_not_intercepted(server: str, rides: str) -> None:
    scene = RelayedScenario()
    scene.host("phone", Role.TERMINAL, PHONE)
    scene.uploads(scene.connection(server, PHONE), loss=0.2)
    assert scene.active == rides


def test_terminal_with_one_address_gets_no_order_for_its_host() -> None:
    scene = RelayedScenario()
    phone = scene.host("phone", Role.TERMINAL, PHONE)
    scene.gateway()
    connection = scene.connection(RELAY, BY_WIFI, BY_LTE)
    connection.subflows[1].server.backup = True
    scene.uploads(connection, loss=0.2)
    assert scene.active == "lte" and not any(isinstance(each, Prefer) for each in phone.orders)
    entry = scene.core.steering.logbook.entries("phone")[0]
    assert entry.unmoved and "phone: the terminal's own addresses all belong to one uplink" in entry.unmoved


def test_host_of_a_relayed_terminal_is_not_that_terminal() -> None:
    scene = RelayedScenario()
    host = scene.host("nas", Role.TERMINAL, BY_WIFI, BY_LTE)
    assert scene.core.agents.speaks_for(host.session) == ()
    assert scene.core.agents.speaker(scene.host("elsewhere", Role.GATEWAY, BY_WIFI).session) is None


@pytest.mark.parametrize(("host_tells", "copied"), [(True, False), (False, True)])
def test_auto_begins_copies_if_only_the_own_agent_reports(host_tells: bool, copied: bool) -> None:
    scene = RelayedScenario("auto", InForce(decisions=Decisions(copies={"phone": False})))
    scene.host("phone", Role.TERMINAL, PHONE)
    if host_tells:
        scene.gateway()
    scene.uploads(scene.connection(RELAY, BY_WIFI, BY_LTE), loss=0.0, seconds=int(2 * UNHEARD_S))
    assert scene.core.decisions.copies["phone"] is copied


def test_host_addresses_are_not_on_the_terminals_air() -> None:
    (site,) = relayed_site.config().sites
    place = AccessPointState(site, replace(site.access_points[0], rule=CapRule.IDEAL))
    assert place.ports == ("c1", "c2")
