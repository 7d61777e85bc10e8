# SPDX-License-Identifier: Apache-2.0
"""Random events of agents, people, ports and files in any order never stop the core. Afterwards an override moves
every connection at one end.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from controller.core import overrides
from controller.model.config import Mode
from controller.protocol.reports import FailoverFired, PathManager, Resulted, Role
from controller.protocol.requests import Impossible
from controller.readout.why import course
from tests.controller import sites
from tests.controller.features.steering.test_manager import LTE, RELAY_ADDRESS, WIFI, WIFI6, SteeringScenario, renamed
from tests.fakes.host import FakeConnection, FakeHost

HANDS = ("client", "guest", "relay-1", "relay-2")
OTHER_RELAY = "203.0.113.9"
UPLINKS = st.sampled_from(["wifi", "lte", "auto"])


class Steering(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scene = SteeringScenario()
        world = self.scene.world
        addresses = {"relay-1": (RELAY_ADDRESS,), "relay-2": (OTHER_RELAY,)}
        roles = {"client": Role.TERMINAL, "guest": Role.TERMINAL}
        self.hosts = {
            name: FakeHost(name, roles.get(name, Role.RELAY), addresses.get(name, (WIFI, LTE, WIFI6)), world)
            for name in HANDS
        }
        self.hosts["relay-2"].path_manager = PathManager.KERNEL
        world.append(FakeConnection.between(RELAY_ADDRESS, WIFI, LTE))
        self.joins("relay-1")
        self.joins("client")
        self.scene.second()

    @rule(name=st.sampled_from(HANDS))
    def joins(self, name: str) -> None:
        self.scene.join(self.hosts[name])

    @rule(name=st.sampled_from(HANDS))
    def leaves(self, name: str) -> None:
        self.scene.leave(self.hosts[name])

    @rule(name=st.sampled_from(HANDS), why=st.sampled_from([None, "it cannot now"]))
    def can_or_cannot(self, name: str, why: str | None) -> None:
        self.hosts[name].unable = why

    @rule(server=st.sampled_from([RELAY_ADDRESS, OTHER_RELAY, "198.51.100.1"]), owned=st.booleans())
    def connects(self, server: str, owned: bool) -> None:
        connection = FakeConnection.between(server, WIFI, LTE)
        connection.subflows[1].terminal.backup = owned
        self.scene.world.append(connection)

    @precondition(lambda self: self.scene.world)
    @rule()
    def disconnects(self) -> None:
        self.scene.world.pop(0)

    @precondition(lambda self: self.scene.world)
    @rule(loss=st.sampled_from([0.0, 0.3]), dead=st.sampled_from([(), (WIFI,), (LTE,)]), times=st.integers(1, 4))
    def downloads(self, loss: float, dead: tuple[str, ...], times: int) -> None:
        self.scene.world[:] = [each for each in self.scene.world if each.subflows]
        self.scene.downloads(times, loss, dead)

    @rule(seconds=st.sampled_from([0.3, 2.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.scene.pass_time(seconds)

    @rule(steps=st.integers(1, 40))
    def orders_arrive(self, steps: int) -> None:
        for _ in range(steps):
            self.scene.step()

    @rule(name=st.sampled_from(HANDS))
    def reports(self, name: str) -> None:
        if self.hosts[name].session in self.scene.hosts:
            self.scene.tell(self.hosts[name].report())

    @rule(name=st.sampled_from(HANDS))
    def fires(self, name: str) -> None:
        host = self.hosts[name]
        if host.armed and host.session in self.scene.hosts:
            self.scene.tell(host.fires("client", 160))

    @rule(
        name=st.sampled_from(HANDS), terminal=st.sampled_from(["client", "phone", "nobody"]), at=st.integers(100, 200)
    )
    def lies(self, name: str, terminal: str, at: int) -> None:
        if (session := self.hosts[name].session) in self.scene.hosts:
            self.scene.tell(FailoverFired(session, terminal, "it did not", 100, 1, at))
            self.scene.tell(Resulted(session, 1, True, "it was not asked", 1, 1))

    @rule(port=st.sampled_from(["wifi0", "lte0"]), up=st.booleans())
    def port(self, port: str, up: bool) -> None:
        self.scene.up(port, up)

    @rule(uplink=UPLINKS, at_once=st.booleans())
    def switch(self, uplink: str, at_once: bool) -> None:
        try:
            _, effects, _ = overrides.active(self.scene.core, "client", uplink, self.scene.now)
        except Impossible:
            return
        self.scene.carry(effects)
        if at_once:
            self.scene.second()

    @rule(mode=st.sampled_from(Mode))
    def mode(self, mode: Mode) -> None:
        self.scene.carry(overrides.mode(self.scene.core, "client", mode, self.scene.now)[1])

    @rule(kind=st.sampled_from(["as it was", "renamed", "without"]))
    def reconfigures(self, kind: str) -> None:
        config = renamed("lte", "mobile") if kind == "renamed" else sites.loaded(sites.document())
        if kind == "without":
            written = sites.document()
            del written["sites"]["home"]["terminals"]["client"]
            config = sites.loaded(written)
        self.scene.carry(self.scene.core.reconfigure(config, self.scene.now))
        self.scene.drain()
        if kind == "without":
            self.reconfigures("as it was")

    @rule()
    def restarts(self) -> None:
        self.scene.restart()

    @invariant()
    def why_can_be_told(self) -> None:
        view = course(self.scene.core, "client", self.scene.now, 0.0)
        assert view.movers or view.unmoved
        site = self.scene.core.config.sites[0]
        names = {uplink.name for uplink in site.uplinks}
        assert view.active_uplink in names
        for steered in self.scene.core.steering.steered.values():
            assert steered.course.active == self.scene.core.in_force.active_uplink(steered.site, steered.terminal)

    def teardown(self) -> None:
        scene = self.scene
        if scene.switch().session is None:
            scene.connect()
        scene.drain()
        self.mode(Mode.SINGLE)
        self.reconfigures("as it was")
        self.scene.leave(self.hosts["guest"])
        for name in ("relay-1", "client"):
            self.hosts[name].unable = None
            scene.join(self.hosts[name])
        for port in ("wifi0", "lte0"):
            scene.up(port, True)
        scene.world[:] = [each for each in scene.world if len(each.subflows) == 2 and each.server == RELAY_ADDRESS]
        scene.second()
        scene.switch_to("lte")
        for _ in range(35):
            scene.second(self.hosts["relay-1"], self.hosts["client"])
        assert scene.installed() == scene.compiled()
        for connection in scene.world:
            assert [each.address for each in connection.carrying()] == [LTE]
            flagged = {(each.terminal.backup, each.server.backup) for each in connection.subflows}
            assert [set(end) for end in zip(*flagged, strict=True)] != [{True, False}] * 2, "only one end has flags"


Steering.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestSteeringAnyhow = Steering.TestCase
