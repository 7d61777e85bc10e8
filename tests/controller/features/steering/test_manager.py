# SPDX-License-Identifier: Apache-2.0
"""Core and agents together: evidence leads to orders at both ends, and to log entries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.agents.agent import GONE_AFTER_S
from controller.agents.order_slot import ANSWERED_WITHIN_S
from controller.core import overrides
from controller.features.steering.logbook import By, LogEntry
from controller.model.config import Config
from controller.model.decisions import Decisions
from controller.model.in_force import InForce
from controller.model.overrides import Overrides
from controller.policy.paths.failover import LEASE_S, RENEW_S, ArmedFailover
from controller.policy.paths.health import SILENT_AFTER_S, UplinkHealth
from controller.protocol.orders import Arm, Direct, Disarm, Prefer
from controller.protocol.reports import FailoverFired, PathManager, Role
from controller.protocol.requests import Impossible, OverrideResult
from controller.readout.snapshot import ActiveBy
from controller.readout.why import course
from tests.controller import sites
from tests.controller.core.test_core import all_answer
from tests.controller.pair import CoreAndSwitch
from tests.controller.sites import LTE_HOP_MAC, PORTS
from tests.fakes.host import FakeConnection, FakeHost
from tests.fakes.switch import FakeSwitch

WIFI, LTE, WIFI6 = "192.168.110.3", "192.168.210.3", "fd00:110::3"
RELAY_ADDRESS = "203.0.113.5"
TO_LTE = Prefer((LTE,), ((WIFI, WIFI6),), hard=False)


class SteeringScenario(CoreAndSwitch):
    """The paper's site with its switch connected and every MAC known, and a set of connections."""

    def __init__(
        self, in_force: InForce | None = None, mode: str = "single", written: dict[str, Any] | None = None
    ) -> None:
        written = written or sites.document()
        written["sites"]["home"]["terminals"]["client"]["mode"] = mode
        super().__init__(sites.loaded(written), [FakeSwitch(PORTS)], in_force)
        self.world: list[FakeConnection] = []
        self.connect()
        self.drain()
        all_answer(self)

    def relay(self, **more: object) -> FakeHost:
        return self._agent("relay-1", Role.RELAY, (RELAY_ADDRESS,), **more)

    def client(self, name: str = "client", **more: object) -> FakeHost:
        return self._agent(name, Role.TERMINAL, (WIFI, LTE, WIFI6), **more)

    def _agent(self, name: str, role: Role, addresses: tuple[str, ...], **more: object) -> FakeHost:
        host = FakeHost(name, role, addresses, self.world, **more)  # type: ignore[arg-type]
        self.join(host)
        return host

    def connection(self, server: str = RELAY_ADDRESS, *addresses: str) -> FakeConnection:
        self.world.append(FakeConnection.between(server, *(addresses or (WIFI, LTE))))
        return self.world[-1]

    def switch_to(self, uplink: str) -> tuple[OverrideResult, list[LogEntry]]:
        answer, effects, entries = overrides.active(self.core, "client", uplink, self.now)
        self.carry(effects)
        self.drain()
        return answer, entries

    def downloads(self, seconds: int, loss: float = 0.0, dead: tuple[str, ...] = ()) -> None:
        for _ in range(seconds):
            for connection in self.world:
                connection.download(100, dead=dead, loss=loss)
            self.second()

    @property
    def active(self) -> str:
        site = self.switch().site
        return self.core.in_force.active_uplink(site, site.terminals[0])

    def gateway_is_on(self, uplink: str) -> bool:
        """Return whether the group of uncopied traffic has this uplink's bucket first."""
        port = {"wifi": "wifi0", "lte": "lte0"}[uplink]
        groups = [each for each in self.installed().groups.values() if each.label == f"client rest from {WIFI}"]
        (group,) = groups
        return group.buckets[0].watch_port == PORTS[port].number

    def entries(self) -> list[LogEntry]:
        return self.core.steering.logbook.entries("client")

    def health(self, uplink: str) -> UplinkHealth:
        return self.core.steering.steered["client"].paths[uplink].health


def backups(connection: FakeConnection) -> dict[str, tuple[bool, bool]]:
    return {each.address: (each.terminal.backup, each.server.backup) for each in connection.subflows}


def arms(host: FakeHost) -> list[Arm]:
    return [order for order in host.orders if isinstance(order, Arm)]


def prefers(host: FakeHost) -> list[Prefer]:
    return [order for order in host.orders if isinstance(order, Prefer)]


def downloading(seconds: int = 2) -> tuple[SteeringScenario, FakeHost, FakeConnection]:
    """Return a relay's agent that has reported one download for this long."""
    scene = SteeringScenario()
    relay, connection = scene.relay(), scene.connection()
    scene.downloads(seconds)
    return scene, relay, connection


# Decisions


def test_downstream_loss_moves_both_ends_with_figures() -> None:
    scene = SteeringScenario()
    relay, connection = scene.relay(), scene.connection()
    connection.subflows[1].server.backup = True
    scene.downloads(6, loss=0.2)
    assert scene.active == "lte" and scene.gateway_is_on("lte")
    assert scene.core.decisions.active == {"client": "lte"} and not scene.core.overrides.active
    assert prefers(relay) == [TO_LTE] and backups(connection)[WIFI] == (False, True)
    (entry,) = scene.entries()
    assert entry.by is By.POLICY and "20% of" in entry.reason and entry.left == "wifi"
    assert entry.gateway.done and "groups modified" in entry.gateway.answer
    assert entry.agents["relay-1"].done and entry.agents["relay-1"].connections == 1


def test_switch_alone_skips_a_downed_port_without_an_agent() -> None:
    scene = SteeringScenario()
    scene.up("wifi0", False)
    scene.drain()
    for _ in range(100):
        scene.pass_time(1.0)
    assert scene.active == "wifi" and not scene.entries() and scene.core.in_force == InForce()


def test_dead_path_of_three_is_closed_and_the_other_is_backup() -> None:
    written = sites.document()
    home = written["sites"]["home"]
    hop = {"address": "192.168.220.1", "mac": LTE_HOP_MAC}
    home["uplinks"]["dsl"] = {"port": "lan0", "addresses": ["192.168.220.2/24"], "next_hops": [hop]}
    del home["terminals"]["phone"], home["subnets"]["lan"]
    home["subnets"]["dsl-side"] = {"gateways": ["192.168.230.2/24"], "uplink": "dsl"}
    home["terminals"]["client"]["addresses"][2] = {"address": "192.168.230.3", "port": "c2"}
    scene = SteeringScenario(written=written)
    relay, connection = scene.relay(), scene.connection(RELAY_ADDRESS, WIFI, LTE, "192.168.230.3")
    scene.downloads(2)
    scene.up("wifi0", False)
    scene.drain()
    scene.downloads(3)
    assert prefers(relay)[0] == Prefer((LTE,), ((WIFI,),), hard=True) and len(prefers(relay)) == 2
    assert backups(connection) == {LTE: (False, False), "192.168.230.3": (False, True)}


def test_loss_on_the_old_path_is_not_counted_for_the_new_one() -> None:
    scene = SteeringScenario()
    scene.client()
    up = scene.connection("198.51.100.1")

    def loses() -> None:
        up.subflows[0].terminal.segments_sent += 100
        up.subflows[0].terminal.retransmits += 20
        up.subflows[0].terminal.bytes_acked += 100_000

    while scene.active == "wifi":
        loses()
        scene.second()
    loses()
    scene.now += 0.5
    scene.tell(next(iter(scene.hosts.values())).report())
    assert not scene.core.steering.steered["client"].paths["lte"].window


def test_off_has_no_decisions_and_no_failovers() -> None:
    scene = SteeringScenario(mode="off")
    relay, _ = scene.relay(), scene.connection()
    scene.downloads(6, loss=0.3)
    assert scene.active == "wifi" and not scene.entries() and not relay.orders


def test_many_decisions_are_one_compilation() -> None:
    ports = {"big-u1": PORTS["wifi0"], "big-u2": PORTS["lte0"], "big-lan": PORTS["lan0"]}
    pair = CoreAndSwitch(sites.loaded({"servers": ["relay-1"], "sites": {"big": sites.many(20)}}), [FakeSwitch(ports)])
    pair.connect()
    pair.drain()
    world = [FakeConnection.between(RELAY_ADDRESS, f"10.0.1.{at}") for at in range(1, 21)]
    pair.join(FakeHost("relay-1", Role.RELAY, (RELAY_ADDRESS,), world))
    pair.second()
    before = pair.switch().reconciles
    pair.up("big-u1", False)
    pair.drain()
    assert len(pair.core.decisions.active) == 20
    assert pair.switch().reconciles - before <= 2, "one for the port, and one for all decisions"
    assert pair.installed() == pair.compiled()


# Choice of the agent


def test_only_one_of_two_agents_moves_a_connection() -> None:
    scene = SteeringScenario()
    relay, client, connection = scene.relay(), scene.client(), scene.connection()
    scene.second()
    for uplink in ("lte", "wifi", "lte"):
        scene.switch_to(uplink)
        scene.second()
        assert [each.address for each in connection.carrying()] == [{"wifi": WIFI, "lte": LTE}[uplink]]
    assert len(prefers(relay)) == 3 and not prefers(client)


def test_serving_end_clears_its_flags_if_both_ends_have_some() -> None:
    scene = SteeringScenario()
    connection = scene.connection()
    connection.subflows[0].terminal.backup = True
    connection.subflows[1].server.backup = True
    relay, client = scene.relay(), scene.client()
    scene.second()
    scene.switch_to("lte")
    scene.second()
    assert prefers(relay) == [Prefer((WIFI, WIFI6, LTE), (), hard=False)] and prefers(client) == [TO_LTE]
    assert [each.address for each in connection.carrying()] == [LTE]


def test_foreign_flags_are_reported_and_not_ordered_repeatedly() -> None:
    scene = SteeringScenario()
    connection = scene.connection()
    connection.subflows[1].terminal.backup = True
    relay = scene.relay()
    scene.second()
    _, entries = scene.switch_to("lte")
    assert entries[0].failures() == ("relay-1 could not: it stays backup: the other end has flagged it",)
    assert entries[0].answers() == ()
    for _ in range(20):
        scene.second()
    assert len(prefers(relay)) == 1


def test_server_that_would_move_others_too_gets_no_order() -> None:
    scene = SteeringScenario()
    server = scene.relay(path_manager=PathManager.KERNEL)
    scene.connection()
    scene.connection(RELAY_ADDRESS, "198.51.100.77")
    scene.second()
    before = scene.core.in_force
    with pytest.raises(Impossible, match="changes a path for every client"):
        overrides.active(scene.core, "client", "lte", scene.now)
    assert scene.core.in_force == before and not scene.entries() and not server.orders
    scene.world.pop()
    scene.second()
    _, entries = scene.switch_to("lte")
    assert scene.gateway_is_on("lte") and "none of its connections was ordered to move" in entries[0].answers()[0]


# Overrides


def test_override_lasts_until_auto_and_stops_policies() -> None:
    scene = SteeringScenario()
    relay, connection = scene.relay(), scene.connection()
    scene.second()
    scene.core.decisions = Decisions(active={"client": "lte"})
    scene.switch_to("wifi")
    scene.downloads(6, loss=0.3)
    assert scene.active == "wifi" and scene.health("wifi") is UplinkHealth.LOSSY and len(scene.entries()) == 1
    assert scene.core.in_force == InForce(Overrides(active={"client": "wifi"}))
    assert not relay.armed and course(scene.core, "client", scene.now, 0.0).active_by is ActiveBy.PEOPLE
    answer, entries = scene.switch_to("auto")
    assert answer.changed and scene.active == "lte" and scene.gateway_is_on("lte") and entries[0].by is By.POLICY
    assert course(scene.core, "client", scene.now, 0.0).active_by is ActiveBy.POLICIES
    assert [each.address for each in connection.carrying()] == [LTE]
    again, entries = scene.switch_to("auto")
    assert not again.changed and not entries


def test_override_and_decision_survive_a_restart() -> None:
    for in_force in (
        InForce(Overrides(active={"client": "lte"})),
        InForce(decisions=Decisions(active={"client": "lte"})),
    ):
        scene = SteeringScenario()
        scene.relay()
        scene.core.overrides, scene.core.decisions = in_force.overrides, in_force.decisions
        scene.restart()
        connection = scene.connection()
        scene.second()
        scene.second()
        assert scene.active == "lte" and scene.gateway_is_on("lte")
        assert [each.address for each in connection.carrying()] == [LTE]


def test_unanswered_order_is_repeated_after_a_minute() -> None:
    scene = SteeringScenario()
    relay, connection = scene.relay(), scene.connection()
    scene.second()
    _, effects, entries = overrides.active(scene.core, "client", "lte", scene.now)
    asked = [each for each in effects if isinstance(each, Direct) and isinstance(each.order, Prefer)]
    for _ in range(int(ANSWERED_WITHIN_S) - 1):
        scene.second()
    assert len(asked) == 1 and not prefers(relay) and not entries[0].answered
    scene.second()
    scene.second()
    assert entries[0].agents["relay-1"].orders == 2 and [each.address for each in connection.carrying()] == [LTE]


def test_silent_agent_moves_no_terminal_and_its_reports_expire() -> None:
    scene = SteeringScenario()
    relay = scene.relay()
    scene.connection().subflows[1].server.backup = True
    scene.downloads(4, loss=0.2)
    assert scene.active == "lte"
    scene.pass_time(GONE_AFTER_S + 0.1)
    assert {scene.health("wifi"), scene.health("lte")} == {UplinkHealth.UNKNOWN}
    view = course(scene.core, "client", scene.now, 0.0)
    assert view.unmoved == "no agent can move its connections" and "relay-1 is silent" in view.uplinks[0].reason
    assert view.other_end.nobody == "agent relay-1 is silent"
    before = len(relay.orders)
    for _ in range(600):
        scene.pass_time(1.0)
    scene.drain()
    assert scene.active == "lte" and len(relay.orders) == before and len(scene.entries()) == 1


# Armed failovers


def test_failover_is_renewed_and_follows_a_move() -> None:
    scene = SteeringScenario()
    relay = scene.relay()
    scene.connection().subflows[1].server.backup = True
    scene.downloads(2)
    assert relay.armed == {"client": Arm("client", (WIFI, WIFI6), (LTE,), 150, 100, int(LEASE_S * 1000))}
    scene.downloads(int(RENEW_S * 2 / 3) - 3)
    assert len(arms(relay)) == 1
    scene.downloads(int(RENEW_S / 3) + 3)
    assert len(arms(relay)) == 2
    scene.downloads(6, loss=0.2)
    assert scene.active == "lte" and relay.armed["client"].watched == (LTE,)


def test_failovers_armed_together_are_renewed_at_spread_times() -> None:
    after = [ArmedFailover(f"phone{number}", "wifi", "lte", 150, 100).renewed_after_s for number in range(250)]
    assert min(after) >= RENEW_S * 2 / 3 and max(after) <= RENEW_S < LEASE_S / 2
    for second in range(int(min(after)), int(max(after)) + 1):
        assert sum(second <= each < second + 1 for each in after) < 100


def test_fired_failover_moves_the_gateway_too_until_the_port_comes_up_again() -> None:
    scene, relay, connection = downloading(3)
    scene.tell(relay.fires("client", 160))
    scene.drain()
    assert scene.active == "lte" and scene.gateway_is_on("lte") and scene.health("wifi") is UplinkHealth.DEAD
    assert not prefers(relay) and [each.address for each in connection.subflows] == [LTE]
    (entry,) = scene.entries()
    assert entry.by is By.FAILOVER and "no progress for 160 ms with data in flight" in entry.reason
    assert entry.agents["relay-1"].answer == "it fired" and entry.gateway.done
    scene.up("wifi0", True)  # as it was
    scene.up("home0", False)
    scene.drain()
    assert scene.health("wifi") is UplinkHealth.DEAD
    scene.up("wifi0", False)
    scene.up("wifi0", True)
    scene.drain()
    assert scene.health("wifi") is UplinkHealth.UNKNOWN


def test_passive_end_is_armed_too() -> None:
    scene = SteeringScenario()
    relay, client = scene.relay(), scene.client()
    connection = scene.connection()
    connection.subflows[1].terminal.backup = True
    scene.downloads(3)
    assert relay.armed.keys() == client.armed.keys() == {"client"}
    scene.tell(relay.fires("client", 120))
    scene.drain()
    assert scene.active == "lte" and scene.gateway_is_on("lte")
    (moved,) = prefers(client)
    assert moved.hard and not prefers(relay)
    assert [each.address for each in connection.carrying()] == [LTE]


def test_failover_is_armed_while_there_is_a_fallback_and_no_override() -> None:
    scene, relay, _ = downloading()
    scene.up("lte0", False)
    scene.drain()
    assert relay.orders[-1] == Disarm("client") and not relay.armed
    scene.up("lte0", True)
    scene.second()
    assert relay.armed.keys() == {"client"}
    relay.armed.clear()
    scene.join(relay)
    scene.second()
    assert relay.armed.keys() == {"client"}, "after its return"
    scene.world.clear()
    scene.second()
    assert relay.armed
    scene.switch_to("wifi")
    assert not relay.armed, "an override disarms it without connections too"


def test_failover_during_an_override_is_undone() -> None:
    scene, relay, connection = downloading()
    fired = FailoverFired(relay.session, "client", "it fired", 160, 1, 7)
    scene.carry(overrides.active(scene.core, "client", "wifi", scene.now)[1])
    scene.tell(fired)
    scene.drain()
    assert scene.active == "wifi" and scene.gateway_is_on("wifi")
    assert scene.entries()[0].by is By.FAILOVER and "nothing moved" in scene.entries()[0].gateway.answer
    assert [each.address for each in connection.carrying()] == [WIFI]


def test_terminal_moves_connections_that_the_relay_cannot() -> None:
    scene = SteeringScenario()
    relay, client, connection = scene.relay(), scene.client(), scene.connection()
    scene.downloads(2)
    relay.unable = "it was made under the kernel's path manager"
    scene.carry(overrides.active(scene.core, "client", "lte", scene.now)[1])
    scene.drain()
    assert [each.address for each in connection.carrying()] == [LTE]
    assert len(prefers(relay)) == 1 and len(prefers(client)) == 1
    assert {each.agent: each.done for each in scene.entries()[0].agents.values()} == {"relay-1": False, "client": True}


def test_repeated_failover_messages_count_once() -> None:
    scene, told = SteeringScenario(), []
    relay = scene.relay()
    for active, idle in (("wifi", 1), ("lte", 0)):
        scene.connection().subflows[idle].server.backup = True
        scene.downloads(int(SILENT_AFTER_S) + 2)
        assert scene.active == active
        told.append(relay.fires("client", 200))
        scene.tell(told[-1])
        scene.drain()
    scene.connection().subflows[1].server.backup = True
    scene.downloads(int(SILENT_AFTER_S) + 2)
    assert scene.active == "wifi" and len(scene.entries()) == 2 and relay.armed
    scene.join(relay)
    for fired in told:
        scene.tell(replace(fired, session=relay.session))
    assert scene.active == "wifi" and len(scene.entries()) == 2


def test_failover_to_a_removed_uplink_moves_no_terminal() -> None:
    scene, relay, _ = downloading()
    fired = relay.fires("client", 200)
    scene.carry(scene.core.reconfigure(renamed("lte", "mobile"), scene.now))
    scene.tell(fired)
    scene.drain()
    assert scene.active == "wifi" and not scene.entries()


def renamed(old: str, new: str) -> Config:
    written = sites.document()
    home = written["sites"]["home"]
    home["uplinks"][new] = home["uplinks"].pop(old)
    home["subnets"]["lte-side"]["uplink"] = home["terminals"]["phone"]["default_uplink"] = new
    home["terminals"]["client"]["mode"] = "single"
    return sites.loaded(written)


def test_override_undone_by_a_failover_is_restored_in_seconds() -> None:
    scene = SteeringScenario()
    client, connection = scene.client(), scene.connection("198.51.100.1")
    scene.downloads(2)
    scene.core.decisions = replace(scene.core.decisions, active={"client": "wifi"})
    before = dict(client.armed)
    scene.switch_to("wifi")
    client.armed.update(before)  # it fired between two orders
    scene.tell(client.fires("client", 160))
    connection.subflows.append(FakeConnection.between("198.51.100.1", WIFI).subflows[0])  # the kernel opens it again
    connection.subflows[-1].terminal.backup = True
    for _ in range(5):
        scene.second()
    assert scene.active == "wifi" and [each.address for each in connection.carrying()] == [WIFI]
