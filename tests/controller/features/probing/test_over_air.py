# SPDX-License-Identifier: Apache-2.0
"""Paths over the air between agents of terminals and the gateway's agent, which share one access point."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from controller.features.copies.loss_evidence import Probes
from controller.features.probing import probed_paths
from controller.features.probing.path_record import PathEstimate
from controller.features.probing.probed_paths import (
    FIRST_OVER_AIR,
    HEALTH_PORT,
    MOST_OVER_AIR,
    PROBE_PORTS,
    ProbedPath,
    Unmeasured,
    paths,
)
from controller.model.config import ConfigError
from controller.policy.bandwidth.rates import MeasuredRate, Method, Rate
from controller.protocol.orders import AnswerProbes, HealthPath, HealthProbes, ProbeRoute
from controller.protocol.reports import Role
from tests.controller import sites
from tests.controller.access_point import SharedAccessPoint
from tests.controller.access_point import document as shared
from tests.controller.features.peer_sites.test_tunnels import REMOTE, tunnelled
from tests.controller.features.probing.test_manager import ProbedSites, meetings
from tests.fakes.measurer import FakeMeasurer, FakePath

HOST = "10.9.0.1"
NAMES = ("phone", "tablet", "wifi")  # the last one is also the name of an uplink
ADDRESSES = {name: f"10.1.0.{number}" for number, name in enumerate(NAMES, 7)}


def written(**more: Any) -> dict[str, Any]:
    """Return a site with three terminals on one access point, and a peer site."""
    document = tunnelled()
    home = document["sites"]["home"]
    home["access_points"]["air"] = {"measure": HOST, **more}
    home["terminals"] = {"client": home["terminals"]["client"]} | {
        name: {"access_point": "air", "addresses": [{"address": address, "port": "lan0"}]}
        for name, address in ADDRESSES.items()
    }
    del home["terminals"]["client"]["access_point"]
    return document


def over_air(document: dict[str, Any], *names: str, **links: FakePath) -> tuple[ProbedSites, dict[str, FakeMeasurer]]:
    world = ProbedSites(document)
    agents = {"home": world.measurer("home")}
    for name in names:
        own = {f"{name}@air": links[name]} if name in links else {}
        agents[name] = world.measurer(name, role=Role.TERMINAL, links=own)
    return world, agents


def test_terminal_sends_its_gateway_one_small_packet_a_second() -> None:
    world, agents = over_air(written(), "phone")
    number = FIRST_OVER_AIR
    answer = agents["home"].answer
    met = meetings(answer)
    assert [one.probe_port for one in answer.sessions] == [PROBE_PORTS + number]
    path = HealthPath("phone@air", ProbeRoute(None, None, HOST), HEALTH_PORT, number, 1000, met[number])
    assert agents["phone"].orders_of(HealthProbes) == [HealthProbes((path,))]
    other = world.measurer("tablet", role=Role.RELAY)
    world.seconds(4)
    told = world.path("phone@air")
    assert (told.site, told.near, told.far, told.why_not) == ("home", "phone", "home", None)
    assert told.health is not None and 2 <= told.health.sent <= 6
    assert world.path("tablet@air").why_not == "no terminal agent enrolled as tablet is connected"
    assert not other.measured, "an agent of another role is not that terminal"


def test_one_agent_answers_uplinks_and_air_separately() -> None:
    document = written()
    for name in ("wifi", "lte"):  # the far one starts
        ends = [document["sites"][site]["uplinks"][name] for site in ("home", "far")]
        ends[1]["remote"] = ends[0].pop("remote")
    world, agents = over_air(document, *NAMES)
    world.measurer("far")
    world.second()
    assert len({one.number for one in agents["home"].answer.sessions}) == 2 + len(NAMES)
    world.seconds(3)
    view, told = world.core.probing.view(world.now), len(agents["home"].orders_of(AnswerProbes))
    assert len(view) == 2 + len(NAMES) and all(path.why_not is None for path in view)
    assert {world.path(name).near for name in ("wifi", "lte")} == {"far"}
    world.seconds(20)
    assert len(agents["home"].orders_of(AnswerProbes)) == told


def test_path_over_air_needs_a_configured_address() -> None:
    world, agents = over_air(written(), *NAMES)
    document = written()
    del document["sites"]["home"]["access_points"]["air"]["measure"]
    world.carry(world.core.reconfigure(sites.loaded(document), world.now))
    world.seconds(2)
    assert {path.uplink for path in world.core.probing.view(world.now)} == {"wifi", "lte"}
    assert agents["home"].orders_of(AnswerProbes)[-1] == AnswerProbes()
    assert all(agents[name].orders_of(HealthProbes)[-1] == HealthProbes() for name in NAMES)


def test_terminal_may_be_named_like_an_uplink_or_a_site() -> None:
    document = written()
    home = document["sites"]["home"]
    home["terminals"]["far"] = home["terminals"].pop("tablet")
    world, _ = over_air(document, "wifi", wifi=FakePath(loses=1.0))
    world.measurer("far")
    world.seconds(3)
    dead, uplink = world.path("wifi@air").health, world.core.probing.health("home", "wifi")
    assert dead is not None and dead.lost == dead.sent > 0
    assert uplink is not None and uplink.lost == 0 < uplink.sent
    assert "no terminal agent enrolled as far" in (world.path("far@air").why_not or "")
    report = next(agent.report() for agent in world.hosts.values() if agent.role is Role.TERMINAL)
    assert [path.name for path in report.health] == ["wifi@air"]
    assert Probes().on_report(report, ["wifi", "lte"]) == {}


def test_terminals_share_one_probe_in_order_of_waiting() -> None:
    world, agents = over_air(written(), *NAMES)
    begun = []
    for _ in range(8 * int(probed_paths.SELDOM_S) // 20):
        world.pass_time(20.0)
        for agent in agents.values():
            world.tell(agent.report())
        world.drain()
        assert sum(len(agent.probes) for agent in agents.values()) <= 1
        for agent in (each for each in agents.values() if each.probes):
            order = world.over(agent)
            begun.append((world.now, order.name, order.down))
    assert all(later - sooner >= probed_paths.SELDOM_S for (sooner, *_), (later, *_) in pairwise(begun))
    first = [(name, down) for _, name, down in begun[:6]]
    assert sorted(first) == sorted((f"{name}@air", down) for name in NAMES for down in (False, True))
    assert len(begun) >= 7 and begun[6][1:] == begun[0][1:]


def test_agent_answers_a_limited_number_of_terminals() -> None:
    document = written()
    home = document["sites"]["home"]
    for number in range(MOST_OVER_AIR + 5 - len(NAMES)):
        address = {"address": f"10.1.0.{number + 12}", "port": "lan0"}
        home["terminals"][f"t{number:03}"] = {"access_point": "air", "addresses": [address]}
    there = [each for each in paths(sites.loaded(document)) if "@" in each.uplink]
    numbers = {each.number for each in there if isinstance(each, ProbedPath)}
    assert len(numbers) == MOST_OVER_AIR and len(there) - len(numbers) == 5
    assert all("beyond the limit" in each.reason for each in there if isinstance(each, Unmeasured))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("224.0.0.1", "a routable host"),
        ("10.1.0.1", "a bridge answers for"),
        ("10.1.0.7", "this one is a terminal's"),
        (REMOTE, "this one belongs to the other end of the tunnel"),
    ],
)
def test_unreachable_measurement_address_is_refused(address: str, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        sites.loaded(written(measure=address))
    assert "sites.home.access_points.air.measure" in str(error.value) and expected in str(error.value)


# Rate of the air


class ProbedAccessPoint(SharedAccessPoint):
    """An access point with trains that report a given rate for each terminal."""

    def report_trains(self, name: str, bps: float, down: bool = False, method: Method = Method.TRAINS) -> None:
        measuring = self.core.probing
        one = MeasuredRate(method, Rate(bps, 0.9 * bps, 1.1 * bps), self.now)
        measuring.pages = {**measuring.pages, (("home", f"{name}@air"), down): PathEstimate(measured=(one,))}


def probed(**more: str) -> ProbedAccessPoint:
    written = shared()
    air = written["sites"]["home"]["access_points"]["air"]
    del air["bandwidth_bps"]
    written["controller"] = {"agents": {}}
    air |= {"measure": HOST, **more}
    return ProbedAccessPoint(written)


def test_largest_train_rate_is_used_for_an_hour_or_until_more_is_delivered() -> None:
    air = probed()
    laptop, stream = air.sender("laptop"), air.stream("laptop", rate_bps=1_000_000)
    air.run(2)
    assert laptop.window(stream) is None and air.place().bandwidth_bps is None
    air.report_trains("laptop", 12e6)
    air.report_trains("laptop", 11e6, down=True)
    air.report_trains("phone", 8e6)
    air.run(2)
    measured = air.place().measured
    assert measured is not None and (measured.by, measured.least_bps) == ("trains", 0.9 * 12e6)
    assert air.place().bandwidth_bps == 12_000_000 and laptop.window(stream) is not None
    air.now += 3600.0
    air.run(2)
    assert (air.place().bandwidth_bps, air.place().measured) == (None, None)
    air.report_trains("tablet", 16e6)
    air.run(2)
    assert air.place().bandwidth_bps == 16_000_000
    stream.rate_bps = 24_000_000
    air.run(3)
    measured = air.place().measured
    assert measured is not None and measured.by == "delivered" and (air.place().bandwidth_bps or 0) > 20_000_000
    air.report_trains("tablet", 2e6)
    air.run(2)
    assert (air.place().bandwidth_bps or 0) > 20_000_000, "deliveries raise it further"


@pytest.mark.parametrize("method", [Method.ONE_PACKET, Method.SEVERAL_LINKS])
def test_single_packets_alone_set_no_cap(method: Method) -> None:
    air = probed()
    laptop, stream = air.sender("laptop"), air.stream("laptop", rate_bps=1_000_000)
    air.report_trains("laptop", 12e6, method=method)
    air.run(3)
    assert air.place().bandwidth_bps is None and laptop.window(stream) is None
