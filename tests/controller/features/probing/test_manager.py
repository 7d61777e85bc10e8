# SPDX-License-Identifier: Apache-2.0
"""Paths between sites: orders to agents and their timing, the probing intervals, and the resulting figures."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from controller.agents.order_slot import AGAIN_AFTER_S
from controller.agents.registry import AgentRegistry
from controller.core import overrides
from controller.features.probing import probed_paths
from controller.features.probing.manager import ProbingManager
from controller.features.probing.path_record import Estimate, Estimated
from controller.features.probing.probed_paths import HEALTH_PORT, PROBE_PORTS
from controller.features.probing.schedule import FAST_BPS, HEADERS, SMALL, ProbePlan, plan
from controller.features.probing.view import DirectionView, PathView
from controller.model.config import Mode
from controller.policy.bandwidth.rates import KEPT_S, Rate, Unknown
from controller.policy.paths.uplinks import AddressOwner, TerminalUplinks
from controller.protocol.orders import (
    AnswerProbes,
    AnswerSession,
    Direct,
    HealthPath,
    HealthProbes,
    Probe,
    ProbeRoute,
    Tickets,
)
from controller.protocol.reports import AgentEvent, ProbePacket, ProbeReport, Role
from controller.protocol.requests import Impossible
from tests.controller import sites
from tests.controller.edges.config.test_uplinks import measured
from tests.controller.features.peer_sites.test_manager import PeerSitePair
from tests.controller.features.peer_sites.test_peer_program import SERVER, document
from tests.controller.features.peer_sites.test_tunnels import REMOTE, tunnelled
from tests.fakes.host import FakeConnection, FakeHost, FakeSubflow
from tests.fakes.measurer import FakeMeasurer, FakePath

NUMBERS = {"lte": 1, "wifi": 2}


class ProbedSites(PeerSitePair):
    def measurer(self, name: str, **more: Any) -> FakeMeasurer:
        agent = FakeMeasurer(name, **more)
        self.join(agent)
        self.drain()
        self.second()
        return agent

    def seconds(self, number: int) -> None:
        for _ in range(number):
            self.second()

    def path(self, uplink: str = "wifi") -> PathView:
        return next(each for each in self.core.probing.view(self.now) if each.uplink == uplink)

    def direction(self, uplink: str, direction: str) -> DirectionView:
        return next(each for each in self.path(uplink).directions if each.direction == direction)

    def probe_all(self, agent: FakeMeasurer) -> None:
        """Probe both paths in both directions."""
        for _ in range(4):
            self.seconds(8)
            self.over(agent)

    def over(self, agent: FakeMeasurer, reason: str = "", packets: bool = True) -> Probe:
        """Deliver the report of the running probe."""
        order = agent.probes[0].order
        assert isinstance(order, Probe)
        self.tell(agent.probed(reason, packets))
        self.drain()
        return order


def both(written: dict[str, Any] | None = None, **of_home: Any) -> tuple[ProbedSites, FakeMeasurer, FakeMeasurer]:
    world = ProbedSites(written or tunnelled())
    far = world.measurer("far")
    return world, world.measurer("home", **of_home), far


def meetings(answer: object) -> dict[int, int]:
    assert isinstance(answer, AnswerProbes)
    return {session.number: session.meeting for session in answer.sessions}


def health_paths(agent: FakeMeasurer) -> dict[str, HealthPath]:
    """Return the paths of the agent's newest order."""
    order = agent.orders_of(HealthProbes)[-1]
    assert isinstance(order, HealthProbes)
    return {path.name: path for path in order.paths}


# Orders


def test_far_end_answers_before_the_near_end_sends() -> None:
    world, home, far = both()
    (answer,) = far.orders_of(AnswerProbes)
    met = meetings(answer)
    sessions = {AnswerSession(number, HEALTH_PORT, PROBE_PORTS + number, met[number]) for number in (1, 2)}
    assert set(far.answer.sessions) == sessions and len(set(met.values())) == 2
    ways = {"wifi": ProbeRoute("wlan0", None, REMOTE), "lte": ProbeRoute(None, None, REMOTE)}
    assert health_paths(home) == {
        name: HealthPath(name, way, HEALTH_PORT, NUMBERS[name], 100, met[NUMBERS[name]]) for name, way in ways.items()
    }
    world.seconds(3)
    assert len(home.orders_of(HealthProbes)) == len(far.orders_of(AnswerProbes)) == 1
    assert world.path().why_not is None and (world.path().near, world.path().far) == ("home", "far")


def test_probes_are_faster_while_a_call_is_on_one_path() -> None:
    world, home, _ = both()

    def pauses() -> dict[str, int]:
        return {name: path.pause_ms for name, path in health_paths(home).items()}

    def calls(seconds: int) -> None:
        for _ in range(seconds):
            for _ in range(50):
                world.leaves_home()
            world.seconds(1)

    world.seconds(45)
    assert world.core.decisions.copies["client"] is False, "probes show a clean path"
    met = {path.meeting for path in health_paths(home).values()}
    calls(5)
    assert pauses() == {"wifi": 20, "lte": 100} and world.core.decisions.copies["client"] is False, (
        "the evidence suffices"
    )
    again = {path.meeting for path in health_paths(home).values()}
    assert len(again & met) == 1, "the answering agent accepts each packet number once"
    home.links["wifi"] = FakePath(loses=0.08)
    calls(2)
    assert world.core.decisions.copies["client"]
    calls(2)
    assert pauses() == {"wifi": 100, "lte": 100}
    written = tunnelled()
    written["sites"]["home"]["uplinks"]["lte"]["budget"] = "100MB/day"
    world.carry(world.core.reconfigure(sites.loaded(written), world.now))
    world.seconds(2)
    assert pauses() == {"wifi": 100, "lte": 1000}, "metered"


def test_near_end_waits_until_the_far_end_answers() -> None:
    world = ProbedSites(tunnelled())
    far, home = world.measurer("far", refuses={"AnswerProbes": "port 8620 is taken"}), world.measurer("home")
    world.seconds(2)
    assert len(far.orders_of(AnswerProbes)) == 1 and not home.orders_of(HealthProbes)
    assert world.path().why_not == "port 8620 is taken"
    far.refuses.clear()
    world.seconds(int(AGAIN_AFTER_S) + 1)
    assert len(far.orders_of(AnswerProbes)) == 2 and len(home.orders_of(HealthProbes)) == 1


def test_missing_device_is_measured_once_it_appears() -> None:
    world, home, _ = both(absent={"wifi": "the network device wlan0 is not there"})
    world.seconds(12)
    assert "wlan0 is not there" in (world.path().why_not or "") and world.path("lte").why_not is None
    world.core.probing.wish(None, "lte", None)
    home.absent.clear()
    world.seconds(int(AGAIN_AFTER_S) + 2)
    assert world.path().why_not is None
    told = len(home.orders_of(HealthProbes))
    world.seconds(30)
    assert len(home.orders_of(HealthProbes)) == told


@pytest.mark.parametrize("what", ["home joins", "far joins", "another device"])
def test_new_session_of_either_agent_or_another_device_changes_the_key(what: str) -> None:
    world, home, far = both()
    first = meetings(far.answer)
    if what == "another device":
        written = tunnelled()
        written["sites"]["home"]["uplinks"]["wifi"]["device"] = "wlan1"
        world.carry(world.core.reconfigure(sites.loaded(written), world.now))
    else:
        world.join(home if what == "home joins" else far)
    world.drain()
    world.seconds(2)
    second = meetings(far.answer)
    kept = {NUMBERS["lte"]} if what == "another device" else set()
    assert first.keys() == second.keys() and {number for number in first if first[number] == second[number]} == kept
    assert {name: path.meeting for name, path in health_paths(home).items()} == {
        name: second[number] for name, number in NUMBERS.items()
    }
    world.seconds(3)
    assert meetings(far.answer) == second


def test_ethernet_uplink_is_measured_if_configured() -> None:
    world, home, _ = both(measured())
    assert [path.route for path in health_paths(home).values()] == [ProbeRoute(None, "198.51.100.7", "203.0.113.9")]
    assert world.path("wifi").why_not is None
    assert "it has `measure` neither at home nor at far" in (world.path("lte").why_not or "")


@pytest.mark.parametrize("who", ["home", "far"])
def test_incapable_agent_gets_no_order_and_gives_the_reason(who: str) -> None:
    world = ProbedSites(tunnelled())
    agents = [world.measurer(name, cannot="no stamps" if name == who else None) for name in ("home", "far")]
    world.seconds(10)
    assert not any(agent.measured for agent in agents) and world.path().why_not == "no stamps"


def test_figures_of_one_device_are_not_used_for_another() -> None:
    world, home, _ = both()
    world.probe_all(home)
    world.core.probing.wish(None, "wifi", None)
    world.second()
    written = tunnelled()
    written["sites"]["home"]["uplinks"]["wifi"]["device"] = "wlan1"
    world.carry(world.core.reconfigure(sites.loaded(written), world.now))
    order = world.over(home)
    assert (order.name, order.route.device) == ("wifi", "wlan0")
    for direction in ("up", "down"):
        assert world.direction("wifi", direction).bps is None and world.direction("lte", direction).bps is not None
    assert world.direction("wifi", "up").error == "gateway.yaml changed the path during the probe"
    world.seconds(8)
    assert world.over(home).route.device == "wlan1" and world.direction("wifi", "down").bps is not None


# Probes


def test_probes_take_turns_over_paths_and_directions() -> None:
    world, home, _ = both()
    ways = []
    for _ in range(4):
        world.seconds(8)
        assert len(home.probes) == 1
        order = world.over(home)
        ways.append((order.name, order.down))
    assert sorted(ways) == [("lte", False), ("lte", True), ("wifi", False), ("wifi", True)]
    world.seconds(60)
    assert not home.probes
    for each in home.orders_of(Probe):
        assert isinstance(each, Probe) and each.shortest_bytes == (64 if each.down else 16)
        assert each.port == PROBE_PORTS + NUMBERS[each.name] and each.meeting


def test_path_without_answers_is_not_probed_and_moves_no_terminal() -> None:
    world, home, _ = both(links={"wifi": FakePath(loses=1.0)})
    before = world.active()
    world.seconds(30)
    assert [each.order.name for each in home.probes if isinstance(each.order, Probe)] == ["lte"]
    told, asked = world.path("wifi").health, world.core.probing.health("home", "wifi")
    assert told is not None and asked is not None and told.sent == told.lost == asked.lost > 200
    world.over(home)
    assert world.active() == before


def test_figures_are_shown_with_their_methods_and_survive_a_restart() -> None:
    world, home, _ = both(links={"wifi": FakePath(bps=20e6), "lte": FakePath(bps=8e6, trains_bps=4e6)})
    world.probe_all(home)
    for uplink, bps, methods in (("wifi", 20e6, {"one packet", "trains"}), ("lte", 4e6, {"trains"})):
        for direction in ("up", "down"):
            told = world.direction(uplink, direction)
            assert told.bps == pytest.approx(bps, rel=0.05) and set(told.methods) == methods
            assert told.least_bps is not None and told.least_bps <= bps <= (told.most_bps or 0)
            assert (told.error, told.reason, told.running, told.ended) == ("", "", False, 1)
            assert told.next_in_s is not None and told.next_in_s > 400
    before = world.direction("wifi", "up").bps
    world.restart()
    world.seconds(20)
    assert world.direction("wifi", "up").bps == before and not home.probes, "no new probe is needed"


def test_fast_path_is_probed_with_more_packets_next_time() -> None:
    world, home, _ = both(links={name: FakePath(bps=90e6) for name in NUMBERS})
    for _ in range(4):
        world.seconds(8)
        assert world.over(home).tries == 3, "a new path may be slow"
    world.pass_time(probed_paths.SELDOM_S)
    world.seconds(8)
    (probe,) = home.probes
    assert isinstance(probe.order, Probe) and (probe.order.tries, probe.order.pause_us) == (100, 1000)


def test_agent_that_leaves_during_a_probe_frees_the_turn() -> None:
    world, home, _ = both()
    world.seconds(8)
    order = home.probes[0].order
    assert isinstance(order, Probe)
    world.join(home)
    world.drain()
    told = world.direction(order.name, "down" if order.down else "up")
    assert told.error == "the agent home disconnected during the probe" and not told.running
    home.probes.clear()
    world.seconds(8)
    (another,) = home.probes
    assert isinstance(another.order, Probe) and (another.order.name, another.order.down) != (order.name, order.down)


def test_missing_probe_result_frees_the_turn_after_a_while() -> None:
    world, home, _ = both()
    world.seconds(8)
    world.seconds(120)
    assert len(home.probes) == 2
    late = home.probes[0]
    assert isinstance(late.order, Probe)
    told = world.direction(late.order.name, "down" if late.order.down else "up")
    assert told.error == "the agent home has not reported a result"
    world.over(home)
    assert world.direction(late.order.name, "down" if late.order.down else "up").bps is None


@pytest.mark.parametrize("packets", [False, True])
def test_incomplete_probe_is_shown_with_the_reason(packets: bool) -> None:
    world, home, _ = both()
    world.seconds(8)
    order = world.over(home, "this host's clock was set by 2.0 s while it ran", packets)
    told = world.direction(order.name, "down" if order.down else "up")
    assert told.error.startswith("this host's clock was set") and (told.bps is not None) == packets


def test_refused_probe_is_retried_soon() -> None:
    world, home, _ = both(refuses={"Probe": "wifi is being measured"})
    world.seconds(8)
    told = world.direction("lte", "up")
    assert told.error == "agent home: wifi is being measured" and not told.running
    home.refuses.clear()
    world.seconds(int(probed_paths.AGAIN_AFTER_S) + 1)
    assert len(home.probes) == 1


# Requests


def test_requested_path_is_probed_first_and_both_ways() -> None:
    world, home, _ = both()
    world.core.probing.wish(None, "wifi", None)
    assert world.direction("wifi", "up").running
    world.second()
    ways = []
    for _ in range(2):
        order = world.over(home)
        ways.append((order.name, order.down))
        world.second()
    assert ways == [("wifi", False), ("wifi", True)]
    assert not world.direction("wifi", "up").running and world.direction("wifi", "down").ended == 1


def test_link_of_known_rate_calibrates_the_hosts() -> None:
    world, home, _ = both(links={"wifi": FakePath(bps=90e6)})
    world.core.probing.wish("far", "wifi", 100e6)
    world.second()
    assert world.over(home).tries == 100
    alpha = world.direction("wifi", "up").alpha_ns_per_byte
    assert alpha == pytest.approx(8e9 / 90e6 - 8e9 / 100e6, abs=0.1)
    assert world.direction("wifi", "up").by_method[0].bps == pytest.approx(100e6, rel=0.01)
    world.restart()
    world.seconds(2)
    assert world.direction("wifi", "up").alpha_ns_per_byte == alpha


@pytest.mark.parametrize(
    ("site", "uplink", "reason"),
    [
        (None, "dsl", "no uplink dsl leads"),
        (None, "lte", "lte of home is not measured"),
        (None, "wifi", "wifi of home cannot be measured: no gateway agent enrolled as far"),
    ],
)
def test_request_that_cannot_be_measured_is_refused_with_reason(site: str | None, uplink: str, reason: str) -> None:
    world = ProbedSites(measured())
    world.measurer("home")
    with pytest.raises(Impossible, match=reason):
        world.core.probing.wish(site, uplink, None)


# Delivery rates of flows


def flowing(mode: Mode, role: Role) -> tuple[ProbedSites, FakeHost, FakeSubflow]:
    """Return a connection over the client's address behind wifi, reported by an agent with this role."""
    world, _, _ = both()
    world.carry(overrides.mode(world.core, "client", mode, world.now)[1])
    world.carry(overrides.active(world.core, "client", "lte", world.now)[1])
    connection = FakeConnection.between(SERVER, "192.168.110.3")
    addresses = ("192.168.110.3", "192.168.210.3") if role is Role.TERMINAL else (SERVER,)
    host = FakeHost("client" if role is Role.TERMINAL else "relay", role, addresses, [connection])
    world.join(host)
    world.drain()
    return world, host, connection.subflows[0]


@pytest.mark.parametrize(
    ("mode", "role", "carried"),
    [
        (Mode.SINGLE, Role.TERMINAL, {("lte", "up")}),
        (Mode.SINGLE, Role.RELAY, {("lte", "down")}),
        (Mode.OFF, Role.TERMINAL, {("wifi", "up")}),
        (Mode.OFF, Role.RELAY, {("wifi", "down")}),
        (Mode.BICAST, Role.TERMINAL, set()),
        (Mode.BICAST, Role.RELAY, set()),
    ],
)
def test_delivery_rate_is_a_lower_bound_of_a_path(mode: Mode, role: Role, carried: set[tuple[str, str]]) -> None:
    world, _, subflow = flowing(mode, role)
    end = subflow.terminal if role is Role.TERMINAL else subflow.server
    for _ in range(7):
        end.bytes_acked += 1_000_000
        world.second()
    for at in ((uplink, direction) for uplink in NUMBERS for direction in ("up", "down")):
        told = world.direction(*at)
        assert (told.methods == ("delivery",)) == (at in carried)
        assert told.bps == (pytest.approx(8e6) if at in carried else None) and told.most_bps is None
    world.pass_time(61.0)
    assert not any(world.direction(*at).methods for at in carried), "old rates have expired"


def test_uplink_rate_comes_from_probes_and_not_from_flows() -> None:
    world, _, subflow = flowing(Mode.SINGLE, Role.RELAY)
    for _ in range(7):
        subflow.server.bytes_acked += 1_000_000
        world.second()
    assert world.direction("lte", "down").methods == ("delivery",)
    assert world.core.probing.uplink_bps("home", world.now) is None
    probed, home, _ = both()
    probed.probe_all(home)
    fastest = max(probed.direction(uplink, "down").bps or 0 for uplink in NUMBERS)
    assert fastest and probed.core.probing.uplink_bps("home", probed.now) == fastest


def test_delivery_rate_is_ignored_while_the_flow_moves() -> None:
    world, _, subflow = flowing(Mode.SINGLE, Role.TERMINAL)
    for number in range(20):
        subflow.terminal.bytes_acked += 1_000_000
        world.carry(overrides.active(world.core, "client", ("wifi", "lte")[number % 2], world.now)[1])
        world.second()
    assert not any(world.direction(*at).methods for at in (("wifi", "up"), ("lte", "up")))


# Cost of probes


def nobody_goes(_: AddressOwner) -> TerminalUplinks:
    raise AssertionError("no agent reports connections")


class AgentPair:
    """Two agents and the measurement between them for hours, without a switch and with invented estimates."""

    def __init__(self, bps: float, budget_bytes: int | None, down_bps: float | None = None) -> None:
        written = measured()
        if budget_bytes is not None:
            written["sites"]["home"]["uplinks"]["wifi"]["budget"] = f"{budget_bytes / 1e6:.6g}MB/day"
        self.bps, self.now = {False: bps, True: down_bps or bps}, 0.0
        config, tickets = sites.loaded(written), Tickets()
        self.registry = AgentRegistry(config, tickets)
        self.measuring = ProbingManager(config, self.registry, tickets, {}, nobody_goes)
        self.agents = {number: FakeMeasurer(name) for number, name in enumerate(("home", "far"), 1)}
        self.probes: dict[bool, list[tuple[float, int]]] = defaultdict(list)  # time and bytes
        self.small: dict[bool, list[int]] = defaultdict(list)  # bytes in the other direction for the same probes
        for number, agent in self.agents.items():
            self.tell(agent.opened(number))

    def tell(self, event: AgentEvent) -> None:
        agent = self.registry.on_event(event, self.now)
        assert agent is not None
        for effect in list(self.measuring.on_event(event, agent, self.now)):
            if isinstance(effect, Direct):
                self.carry_out(effect)
            else:
                self.estimate(effect)

    def carry_out(self, direct: Direct) -> None:
        agent = self.agents[direct.session]
        self.tell(agent.carry_out(direct))
        order = direct.order
        if isinstance(order, Probe):
            numbers = (order.shortest_bytes, order.tries, order.pause_us, order.trains, order.train_packets)
            self.probes[order.down].append((self.now, ProbePlan(*numbers).bytes))
            self.small[order.down].append(ProbePlan(*numbers).packets * SMALL)
            packet = ProbePacket(0, 1440, 0, 1, 1, 2)
            self.tell(ProbeReport(agent.session, direct.directive, "", "udp", (packet,)))

    def estimate(self, order: Estimate) -> None:
        bps = self.bps[order.down]
        rate = Rate(bps, bps * 0.99, bps * 1.01)
        self.measuring.estimated(Estimated(order, rate, Unknown("none"), None), self.now)

    def pass_time(self, hours: int, step_s: float) -> None:
        for _ in range(round(hours * 3600 / step_s)):
            self.now += step_s
            for agent in self.agents.values():
                self.tell(agent.report())
            for direct in list(self.measuring.tend(self.now)):
                self.carry_out(direct)


@settings(max_examples=15, deadline=None)
@given(some.floats(1e5, 1e7), some.floats(1e5, 1e9))
@example(1e6, 60e6)
def test_probes_use_at_most_a_hundredth_of_a_direction(up: float, down: float) -> None:
    alone = AgentPair(up, None, down)
    alone.pass_time(10, 60.0)
    for of in (False, True):
        part = 0.0
        for probed, probes in alone.probes.items():
            small = alone.small[probed]
            lasts_s = probes[-1][0] - probes[0][0]
            took = small if probed != of else [sent - less for (_, sent), less in zip(probes, small, strict=True)]
            part += 8 * sum(took[:-1]) / lasts_s / alone.bps[of] if len(probes) > 1 else 0.0
        assert part <= 0.0101, of


@settings(max_examples=10, deadline=None)
@given(some.integers(10**6, 10**10))
def test_probes_use_at_most_a_hundredth_of_a_budget(budget_bytes: int) -> None:
    alone = AgentPair(20e6, budget_bytes)
    alone.pass_time(72, 300.0)
    probes = sorted(probe for each in alone.probes.values() for probe in each)
    for at, _ in probes:
        assert sum(sent for when, sent in probes if 0 <= when - at < probed_paths.DAY_S) <= 0.01 * budget_bytes
    assert bool(probes) == (0.005 * budget_bytes >= plan(True, None, paid=True).bytes)
    assert plan(False, None, paid=True).bytes <= 0.005 * 100e6, "a budget of 100 MB a day permits probes"


def test_figure_of_a_rare_probe_is_kept_until_the_next() -> None:
    alone = AgentPair(20e6, 100_000_000)
    alone.pass_time(30, 300.0)
    path = next(each for each in alone.measuring.view(alone.now) if each.uplink == "wifi")
    assert [(way.bps, (way.age_s or 0) > 2 * KEPT_S) for way in path.directions] == [(20e6, True)] * 2


BPS = some.one_of(some.none(), some.floats(1.0, 1e12))


@given(some.booleans(), BPS, some.booleans(), BPS, some.booleans())
@example(True, 60e6, False, 1e6, False)
def test_planned_packets_are_spaced_and_limited_in_number(
    down: bool, bps: float | None, paid: bool, back_bps: float | None, new: bool
) -> None:
    planned = plan(down, bps, paid, back_bps, new)
    assert planned.packets <= 20_000 and planned.lasts_s < 1800
    assert 200 <= planned.pause_us <= 500_000 and planned.pause_us * 40 < 60e6
    if bps is not None and 1e6 < bps <= FAST_BPS:
        assert planned.pause_us >= 10 * 8e6 * 1482 / bps
    if back_bps is not None and back_bps > 1e5:
        assert planned.pause_us >= 10 * 8e6 * 64 / back_bps, "small packets do not fill a slow direction either"


@pytest.mark.parametrize("down", [False, True])
def test_first_probe_does_not_fill_a_slow_path(down: bool) -> None:
    planned = plan(down, None, new=True)
    assert 8e6 * (1440 + HEADERS) / planned.pause_us <= 0.301e6 and planned.lasts_s < 30
    assert plan(down, 0.3e6).bytes * 8 / 0.01 / 0.3e6 < 0.75 * 3600, "its figure is measured again before it expires"


DOES = some.sampled_from(
    (
        *("home comes", "far comes", "home goes", "far goes", "told", "cut off", "second", "ten minutes"),
        *("wish", "other file", "refuses", "agrees", "liar"),
    )
)


@settings(max_examples=30, deadline=None)
@given(some.lists(DOES, max_size=25))
def test_random_events_never_cause_two_probes_at_once(does: list[str]) -> None:
    """No agent sends to an end that does not answer."""
    world, home, far = both()
    files = [tunnelled, document]
    for each in does:
        match each:
            case "home comes" | "far comes":
                world.join(home if each == "home comes" else far)
                home.probes.clear()
            case "home goes" | "far goes":
                world.leave(home if each == "home goes" else far)
            case "told" | "cut off" if home.probes:
                world.over(home, "" if each == "told" else "nobody answers any more", packets=each == "told")
            case "ten minutes":
                world.pass_time(600.0)
                home.probes.clear()
            case "wish":
                with suppress(Impossible):
                    world.core.probing.wish(None, "wifi", None)
            case "other file":
                files.reverse()
                written = files[0]()
                world.carry(world.core.reconfigure(sites.loaded(written), world.now))
            case "refuses":
                far.refuses["AnswerProbes"] = home.refuses["Probe"] = "no"
            case "agrees":
                far.refuses.clear()
                home.refuses.clear()
            case "liar":
                world.tell(ProbeReport(home.session, 10**6, "", "udp", ()))
        world.drain()
        world.second()
        assert len(home.probes) <= 1
        answered = {session.meeting for session in far.answer.sessions}
        if home.session in world.hosts and far.session in world.hosts:
            assert {path.meeting for path in health_paths(home).values()} <= answered
    assert all(path.directions or path.why_not for path in world.core.probing.view(world.now))
