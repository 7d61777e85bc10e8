# SPDX-License-Identifier: Apache-2.0
"""After any sequence of events each agent has what is in_force of it, and a second pass sends nothing.

Orders and results are lost, late, refused and repeated; agents, sessions and the controller end and begin again; the
configuration and the list of enrolled agents change.
"""

from __future__ import annotations

from copy import deepcopy
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from controller.agents.order_kinds import (
    ELIMINATION,
    HEALTH_PROBES,
    INTERCEPTION,
    PROBE_ANSWERS,
    RELAYING,
    REPORT_INTERVAL,
    TUNNEL_ENDS,
    WINDOW_CAPS,
    OrderKind,
)
from controller.agents.order_slot import ANSWERED_WITHIN_S
from controller.core.core import Core, CoreEffect
from controller.model.config import Config
from controller.model.in_force import InForce
from controller.model.overrides import Overrides, RelayOverride
from controller.protocol.enrolment import Credential
from controller.protocol.orders import Caps, Choices, Direct, ReportEvery
from controller.protocol.reports import (
    CLAMPS,
    ELIMINATES,
    INTERCEPTS,
    NARROWS,
    PROBE,
    RELAYS,
    REPORTS,
    TUNNELS,
    AgentClosed,
    AgentEvent,
    Resulted,
    Role,
)
from tests.controller import relayed_site, sites
from tests.controller.features.peer_sites.test_tunnels import tunnelled
from tests.fakes.holder import SHOWS, FakeHolder

OF_A_SITE = (ELIMINATES, TUNNELS, PROBE, INTERCEPTS, NARROWS)
IN_MEMORY = (Choices, ReportEvery)
NAMES = ("home", "far", "oslo", "phone")
FATES = ("done", "done", "lost", "without a result", "refused", "late", "twice")  # of orders
SETTLED_S = 3 * ANSWERED_WITHIN_S


def config(**of_home: Any) -> Config:
    written = tunnelled()
    written["servers"] = ["frankfurt"]
    home = written["sites"]["home"]
    home["relaying"] = deepcopy(relayed_site.RELAYING)
    home["access_points"]["air"]["rule"] = "ideal"
    home["terminals"]["client"]["relayed"] = True
    home["terminals"]["phone"]["access_point"] = "air"
    return sites.loaded(written | {"sites": written["sites"] | {"home": home | of_home}})


CONFIGS = (config(), config(copies={"window_floor_ms": "30"}))
RELAY = {"oslo": RelayOverride(ip_address("198.51.100.7"), 443)}


def credentials(number: int) -> dict[str, Credential]:
    roles = {"home": Role.GATEWAY, "far": Role.GATEWAY, "oslo": Role.RELAY}
    return {name: Credential(role, bytes([number]) * 32) for name, role in roles.items()}


class Orders(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now, self.config, self.vouched = 0.0, CONFIGS[0], credentials(1)
        self.hosts = {
            "home": FakeHolder("home", Role.GATEWAY, capabilities=OF_A_SITE),
            "far": FakeHolder("far", Role.GATEWAY, capabilities=OF_A_SITE),
            "oslo": FakeHolder("oslo", Role.RELAY, capabilities=(RELAYS,)),
            "phone": FakeHolder("phone", Role.TERMINAL, ("10.1.0.7",), (REPORTS, CLAMPS)),
        }
        self.sessions = 0
        self.at: dict[int, FakeHolder] = {}  # by session
        self.orders: list[Direct] = []  # on their way
        self.late: list[Resulted] = []
        self.core = self._begun(InForce(Overrides(relays=RELAY)))

    def _begun(self, in_force: InForce) -> Core:
        core = Core(self.config, in_force, self.now)
        self.orders += self._directs(core.vouch(self.vouched, self.now))
        return core

    def _directs(self, effects: Any) -> list[Direct]:
        found: list[CoreEffect] = list(effects)
        return [effect for effect in found if isinstance(effect, Direct)]

    def _carry(self, effects: Any) -> None:
        self.orders += self._directs(effects)

    def _tell(self, event: AgentEvent) -> None:
        self._carry(self.core.handle(event, self.now))

    def _end(self, host: FakeHolder) -> None:
        if self.at.pop(host.session, None):
            self._tell(AgentClosed(host.session, "it ended"))

    # Events

    @initialize()
    def connect_all(self) -> None:
        for name in NAMES:
            self.connect(name, dies=False)

    @rule(name=st.sampled_from(NAMES), dies=st.booleans())
    def connect(self, name: str, dies: bool) -> None:
        """Begin a session. The one before may still be open at the controller."""
        host = self.hosts[name]
        self.at.pop(host.session, None)
        if dies:
            host.die()
        self.sessions += 1
        self.at[self.sessions] = host
        self._tell(host.opened(self.sessions))

    @rule(name=st.sampled_from(NAMES))
    def disconnect(self, name: str) -> None:
        self._end(self.hosts[name])

    @rule(name=st.sampled_from(NAMES))
    def report(self, name: str) -> None:
        if self.hosts[name].session in self.at:
            self._tell(self.hosts[name].report())

    @rule(name=st.sampled_from(NAMES))
    def lose(self, name: str) -> None:
        """Lose what the agent has in the kernel, as by a reload of the host's firewall."""
        has = self.hosts[name].has
        self.hosts[name].has = {kind: order for kind, order in has.items() if kind in IN_MEMORY}

    @rule(seconds=st.sampled_from([0.1, 1.0, 6.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._carry(self.core.tick(self.now))
        self._carry(self.core.rest(self.now))

    @rule(fates=st.lists(st.sampled_from(FATES), min_size=1, max_size=12))
    def deliver_some(self, fates: list[str]) -> None:
        for fate in fates[: len(self.orders)]:
            self._deliver(fate)

    def _deliver(self, fate: str) -> None:
        direct = self.orders.pop(0)
        host = self.at.get(direct.session)
        if host is None or fate == "lost":
            return
        host.refuses = "no such device" if fate == "refused" else ""
        result = host.carry_out(direct)
        host.refuses = ""
        if fate == "late":
            self.late.append(result)
        elif fate != "without a result":
            for _ in range(2 if fate == "twice" else 1):
                self._tell(result)

    @rule()
    def deliver_late(self) -> None:
        if self.late:
            self._tell(self.late.pop(0))

    @rule(number=st.integers(0, 1))
    def reconfigure(self, number: int) -> None:
        self.config = CONFIGS[number]
        self._carry(self.core.reconfigure(self.config, self.now))

    @rule(number=st.integers(1, 2))
    def vouch(self, number: int) -> None:
        self.vouched = credentials(number)
        self._carry(self.core.vouch(self.vouched, self.now))

    @rule()
    def restart(self) -> None:
        """Kill the controller. Agents connect again when the next events say so."""
        self.at.clear()
        self.orders.clear()
        self.late.clear()
        self.core = self._begun(self.core.in_force)

    # The end of all faults

    def teardown(self) -> None:
        self.late.clear()
        for name, host in self.hosts.items():
            if host.session not in self.at:
                self.connect(name, dies=False)
        self._pass(SETTLED_S)
        self._assert_wanted()
        sent = self._pass(SETTLED_S)
        renewed = [each for each in sent if isinstance(each.order, Caps)]
        kept = [each.order for each in sent if type(each.order) in SHOWS and each not in renewed]
        assert kept == [], "a second pass sends nothing but renewals"
        self._assert_wanted()

    def _pass(self, seconds: float) -> list[Direct]:
        """Let time pass without faults, with a report of each agent a second. Return the orders."""
        sent: list[Direct] = []
        for _ in range(round(seconds)):
            self.wait(1.0)
            for host in self.at.values():
                self._tell(host.report())
            while self.orders:
                sent.append(self.orders[0])
                self._deliver("done")
        return sent

    def _assert_wanted(self) -> None:
        core = self.core
        for site in self.config.sites:
            has = self.hosts[site.name].has
            assert has.get(type(ELIMINATION.nothing)) == core.peer_sites._orders[site.name]
            assert has.get(type(TUNNEL_ENDS.nothing)) == core.peer_sites.tunnels._orders[site.name]
        assert self.hosts["home"].has.get(type(INTERCEPTION.nothing)) == core.relays.orders.take("home")
        assert self.hosts["oslo"].has.get(type(RELAYING.nothing)) == core.relays.orders.relay("oslo")
        kinds: tuple[OrderKind[Any], ...] = (PROBE_ANSWERS, HEALTH_PROBES, WINDOW_CAPS, REPORT_INTERVAL)
        for name, host in self.hosts.items():
            for kind in kinds:
                ordered = core.agents.known[name].slot(kind).ordered
                assert ordered is None or host.has.get(type(ordered), kind.nothing) == ordered
        probed = {path.name for path in self.hosts["home"].has[type(HEALTH_PROBES.nothing)].paths}
        assert probed == {"wifi", "lte"}, "the path of each tunnel is measured"


def test_orders_converge() -> None:
    few = settings(max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Orders, settings=few)


@pytest.mark.slow
def test_orders_converge_after_ten_thousand_steps() -> None:
    many = settings(max_examples=200, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Orders, settings=many)
