# SPDX-License-Identifier: Apache-2.0
"""Each terminal on a shared access point gets a window limit for a limited time, from an agent that can enforce it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.agents.order_kinds import LEASE_MS, WINDOW_CAPS
from controller.agents.order_slot import AGAIN_AFTER_S
from controller.core import overrides
from controller.features.caps.draft import MOST_CAPS, MOST_PORTS, CapsDraft
from controller.model.config import CapRule, CapTables
from controller.policy.caps.windows import Window
from controller.protocol.reports import MOST_SUBFLOWS, Role
from tests.controller import sites
from tests.controller.access_point import ADDRESSES, FAR, NEAR, SharedAccessPoint, document
from tests.fakes.capper import FakeCapper, FakeStream

ALONE, ONE_OF_TWO = 32, 17  # segments at 20 Mbit/s and 16 + 2 ms, plus one each


def most(agent: FakeCapper, stream: FakeStream) -> int | None:
    cap = agent.window(stream)
    return cap.most_segments if cap else None


def test_sending_terminal_is_capped_within_a_second() -> None:
    air = SharedAccessPoint()
    laptop = air.sender("laptop")
    air.run(2)
    assert laptop.interval_ms == 250
    stream = air.stream("laptop")
    air.run(1)
    assert most(laptop, stream) == ALONE
    told = air.view("laptop")
    assert (told.active, told.connections, told.most_segments, told.least_segments) == (True, 1, ALONE, ALONE - 1)
    assert (told.agent, told.method, told.held) == ("laptop", "congestion-control", True)
    assert "ideal: 1 active, 20 Mbit/s x (16.0 + 2) ms" in told.reason and told.rtt_ratio == 1.0
    assert laptop.caps[-1].sharers == 1 and laptop.caps[-1].block_bytes > 100_000


@pytest.mark.parametrize("by", ["itself", "its gateway"])
def test_cap_grows_when_the_terminal_moves_to_a_longer_uplink(by: str) -> None:
    written = document()
    written["sites"]["home"]["terminals"]["laptop"]["mode"] = "single"
    air = SharedAccessPoint(written)
    hand = air.sender("laptop") if by == "itself" else air.gateway("window")
    stream = air.stream("laptop", min_rtt_us=4000, srtt_us=4000)
    air.run(3)
    near = most(hand, stream)
    _, effects, _ = overrides.active(air.core, "laptop", "lte", air.now)
    air.carry(effects)
    stream.srtt_us = 60_000
    air.run(4)
    far = most(hand, stream)
    assert near and far and far > 5 * near


def test_cap_lasts_as_long_as_it_is_renewed_and_longer_than_a_late_report() -> None:
    air = SharedAccessPoint()
    laptop, stream = air.sender("laptop"), air.stream("laptop")
    air.run(2)
    for step in range(100):
        laptop.silent = 30 <= step < 41
        air.run(0.1)
        assert most(laptop, stream) == ALONE and laptop.until - air.now > LEASE_MS / 1000 / 2
    assert len(laptop.caps) < 20, "an unchanged order is repeated only to renew its lease"
    laptop.silent, told = True, len(laptop.caps)
    air.run(6)
    assert len(laptop.caps) <= told + 1 and not air.view("laptop").reporting
    air.hosts.clear()  # the controller is gone
    air.now += LEASE_MS / 1000 + 1.1
    assert most(laptop, stream) is None


# Enforcing agents


def test_gateway_caps_a_phone_and_a_laptop_caps_itself() -> None:
    air = SharedAccessPoint()
    gateway, laptop = air.gateway("window"), air.sender("laptop")
    phones, own = air.stream("phone"), air.stream("laptop")
    air.run(3)
    assert gateway.interval_ms == 250 and gateway.caps[0].ports == ("lan0",)
    assert (most(gateway, phones), most(gateway, own), most(laptop, own)) == (ONE_OF_TWO, None, ONE_OF_TWO)
    assert [(told.agent, told.method) for told in map(air.view, ("phone", "laptop"))] == [
        ("home", "window"),
        ("laptop", "congestion-control"),
    ]


@pytest.mark.parametrize(
    ("can", "cannot", "agent"),
    [("report", "caps", "home"), ("report", "report", "home"), ("caps", "report", "laptop")],
    ids=["only reports", "sees no connections", "caps without seeing"],
)
def test_gateway_does_what_the_agent_of_a_terminal_cannot(can: str, cannot: str, agent: str) -> None:
    air = SharedAccessPoint()
    gateway = air.gateway("window")
    laptop, phone = air.sender("laptop", can, cannot={cannot: "it wants CAP_NET_ADMIN"}), air.sender("phone")
    laptop.sees = cannot != "report"
    streams = [air.stream("laptop"), air.stream("phone")]
    air.run(3)
    assert air.place().active == 2 and air.view("laptop").agent == agent
    assert most(laptop if agent == "laptop" else gateway, streams[0]) == ONE_OF_TWO == most(phone, streams[1])
    if laptop.sees:
        assert laptop.interval_ms == 250 and {(order.caps, order.ports) for order in laptop.caps} == {((), ())}
        assert laptop.caps[-1].sharers == 2, "its programs get the number of sharers nevertheless"


def test_missing_enforcement_is_reported_with_the_reason() -> None:
    air = SharedAccessPoint()
    air.sender("laptop", "report", cannot={"caps": "this kernel has no struct_ops", "clamp": "nor sock_ops"})
    air.stream("laptop")
    air.run(2)
    told = air.view("laptop")
    assert (told.agent, told.held, told.active, told.most_segments) == (None, False, True, ALONE)
    assert told.reason.startswith("its agent laptop cannot: this kernel has no struct_ops; nor sock_ops")
    air.gateway("report", cannot={"window": "no clsact here"})
    air.run(1)
    assert "the gateway's agent home cannot: no clsact here" in air.view("laptop").reason
    assert not air.view("phone").reporting


def test_gateway_replaces_a_refusing_agent_which_is_retried() -> None:
    air = SharedAccessPoint()
    gateway, laptop = air.gateway("window"), air.sender("laptop")
    laptop.refuses = "another agent of this host holds its connections"
    stream = air.stream("laptop")
    air.run(3)
    assert most(gateway, stream) == ALONE and air.view("laptop").agent == "home"
    assert air.view("laptop").instead == f"its agent laptop could not: {laptop.refuses}"
    refused = len(laptop.caps)
    assert refused <= 2
    laptop.refuses = None
    air.run(AGAIN_AFTER_S + 1)
    assert (most(gateway, stream), most(laptop, stream)) == (None, ALONE)
    gateway_alone = air.view("laptop")
    assert gateway_alone.agent == "laptop" and gateway_alone.held and gateway_alone.instead is None


def test_own_agent_of_a_terminal_replaces_another_one() -> None:
    air = SharedAccessPoint()
    other, stream = air.sender("stranger", terminal="laptop"), air.stream("laptop")
    air.run(2)
    assert most(other, stream) == ALONE
    own = air.sender("laptop")
    air.run(2)
    assert (most(own, stream), most(other, stream)) == (ALONE, None)
    assert other.interval_ms == 1000 and other.held is None


def test_agent_of_another_site_or_role_gets_no_orders() -> None:
    air = SharedAccessPoint()
    elsewhere = air.gateway("window", name="elsewhere")
    relay = air._agent(FakeCapper("relay", Role.RELAY, (NEAR,), air.air, air._clock, "caps"))
    air.stream("laptop")
    air.run(2)
    assert [(each.caps, each.interval_ms) for each in (elsewhere, relay)] == [([], 1000)] * 2


def test_connection_older_than_the_gateway_agent_is_not_held() -> None:
    air = SharedAccessPoint()
    air.gateway("window")
    old = air.stream("phone")
    old.has_scale = False
    air.run(2)
    told = air.view("phone")
    assert (told.active, told.agent, told.held) == (True, "home", False)
    assert told.reason.endswith("; 1 connection opened before the gateway's agent started and have no cap")
    air.air.remove(old)
    air.stream("phone")
    air.run(2)
    assert air.view("phone").held


def test_terminal_is_not_held_while_sockets_refuse_the_cap_except_new_ones() -> None:
    air = SharedAccessPoint()
    laptop = air.sender("laptop")
    air.stream("laptop")
    air.run(2)
    for _ in range(4):
        laptop.loose = 1
        air.stream("laptop")
        air.run(0.6)
        assert air.view("laptop").held
        laptop.loose = 0
        air.run(0.5)
        assert air.view("laptop").held
    laptop.loose = 1
    air.run(1.5)
    told = air.view("laptop")
    assert (told.agent, told.held) == ("laptop", False)
    assert told.reason.endswith("; its agent caps fewer sockets than it has sending connections")
    laptop.loose = 0
    air.run(0.3)
    assert air.view("laptop").held and "fewer" not in air.view("laptop").reason


# Orders


def test_only_one_order_is_in_flight_and_the_newest_follows() -> None:
    air = SharedAccessPoint()
    laptop, tablet = air.sender("laptop"), air.sender("tablet")
    stream = air.stream("laptop")
    air.run(2)
    laptop.answers = False
    for rate_bps in (2_000_000, 0, 2_000_000):
        air.air[1:] = [FakeStream(ADDRESSES["tablet"], NEAR, rate_bps=rate_bps)]
        air.run(1)
    assert len(air.deaf) == 1 and tablet.caps[-1].sharers == 2
    air.answer(laptop)
    air.run(0.3)
    assert most(laptop, stream) == ONE_OF_TWO and len(laptop.caps) >= 2


def test_gateway_replaces_an_agent_that_does_not_confirm() -> None:
    air = SharedAccessPoint()
    gateway, laptop = air.gateway("window"), air.sender("laptop")
    stream = air.stream("laptop")
    air.run(2)
    assert air.view("laptop").agent == "laptop"
    laptop.answers = False
    air.run(LEASE_MS / 1000 + 2)
    assert air.view("laptop").agent == "home" and most(gateway, stream) == ALONE
    assert "has not confirmed the order for 3 s" in (air.view("laptop").instead or "")
    air.answer(laptop)
    air.run(1)
    assert air.view("laptop").agent == "laptop"


def test_reports_for_a_phone_are_dropped_with_their_agent() -> None:
    air = SharedAccessPoint()
    liar = air.sender("liar", terminal="phone")
    stream = air.stream("phone", rate_bps=19_000_000)  # no other terminal has the rest of the bandwidth
    stream.min_rtt_us = 1
    air.run(2)
    assert air.view("phone").most_segments == 3
    air.leave(liar)
    gateway = air.gateway("window")
    stream.min_rtt_us = 16_000
    air.run(3)
    assert most(gateway, stream) == ALONE


def test_gateway_reports_replace_those_of_a_foreign_agent() -> None:
    air = SharedAccessPoint()
    liar, gateway = air.sender("liar", terminal="phone"), air.gateway("window")
    stream = air.stream("phone")
    air.run(2)
    told = len(liar.caps)
    liar.invented = tuple(
        FakeStream(ADDRESSES["phone"], NEAR, min_rtt_us=1, bytes_sent=n).as_subflow() for n in range(9)
    )
    air.run(4)
    assert most(gateway, stream) == ALONE and liar.held is None and len(liar.caps) <= told + 1
    assert air.view("phone").agent == "home" and not air.view("phone").doubts
    gateway.silent, liar.invented = True, ()
    air.run(2)
    assert most(liar, stream) == ALONE and air.view("phone").agent == "liar", (
        "the other agent counts again for an unseen terminal"
    )


def test_false_reports_add_no_sharer_that_the_gateway_sees() -> None:
    air = SharedAccessPoint()
    gateway, stream = air.gateway("window"), air.stream("phone")
    others = tuple(ADDRESSES[name] for name in ("laptop", "tablet", "watch"))
    liar = air._agent(FakeCapper("liar", Role.TERMINAL, others, air.air, air._clock, "caps", terminal="laptop"))
    air.run(2)
    for sent in range(1, 9):
        liar.invented = tuple(FakeStream(each, NEAR, bytes_sent=sent * 10**5, port=1).as_subflow() for each in others)
        air.run(0.25)
    assert air.place().active == 1 and most(gateway, stream) == ALONE


def test_a_hundred_joins_and_leaves_a_second_are_bounded_work() -> None:
    air = SharedAccessPoint()
    agents = {name: air.sender(name) for name in ADDRESSES}
    streams = {name: air.stream(name) for name in ADDRESSES}
    air.run(2)
    before = {name: len(agent.caps) for name, agent in agents.items()}
    for number in range(100):
        name = list(ADDRESSES)[number % 4]
        streams[name].rate_bps = 0 if streams[name].rate_bps else 50_000_000
        for agent in agents.values():  # as soon as a terminal joins or leaves
            streams[agent.name].pass_time(0.01)
            air.now += 0.0025
            air.tell(agent.report())
        air.drain()
    assert all(len(agent.caps) - before[name] <= 12 for name, agent in agents.items())
    for name in ("phone", "watch"):
        streams[name].rate_bps = 0
    for name in ("laptop", "tablet"):
        streams[name].rate_bps = 2_000_000
    air.run(1)
    assert air.place().active == 2
    assert [most(agents[name], streams[name]) for name in ADDRESSES] == [ONE_OF_TWO, ONE_OF_TWO, None, None]


def test_one_terminal_does_not_fill_an_order() -> None:
    draft = CapsDraft()
    draft.hold("liar", {("10.1.0.11", f"203.0.{number >> 8}.{number & 255}"): Window(9) for number in range(MOST_CAPS)})
    draft.hold("phone", {("10.1.0.13", NEAR): Window(7)})
    for number in range(100):
        draft.hold(f"idle {number}", {})
    caps = draft.order().caps
    held = {(cap.terminal_address, cap.most_segments) for cap in caps}
    assert MOST_CAPS // 2 < len(caps) <= MOST_CAPS and ("10.1.0.13", 7) in held


def test_order_has_no_more_ports_than_an_agent_accepts() -> None:
    draft, ports = CapsDraft(), [f"gw-{number:03}" for number in range(MOST_PORTS + 40)]
    draft.watch(reversed(ports))
    assert draft.order().ports == tuple(ports[:MOST_PORTS])


def test_new_rule_takes_effect_at_once_and_off_lifts_all_caps() -> None:
    air = SharedAccessPoint()
    gateway, laptop = air.gateway("window"), air.sender("laptop")
    own, phones = air.stream("laptop"), air.stream("phone")
    air.run(3)
    air.reconfigured(document("paper", tables="gb"))
    air.run(0.2)
    assert air.place().rule is CapRule.PAPER and air.place().tables is CapTables.GINGERBREAD
    assert "paper (gb): 2 active" in air.view("laptop").reason
    assert most(laptop, own) not in (None, ONE_OF_TWO)
    air.reconfigured(document("off"))
    air.run(0.2)
    assert (laptop.caps[-1], gateway.caps[-1]) == (WINDOW_CAPS.nothing, WINDOW_CAPS.nothing)
    assert (laptop.held, gateway.held) == (None, None)
    assert (laptop.interval_ms, gateway.interval_ms) == (1000, 1000)
    told = len(laptop.caps)
    air.run(10)
    assert len(laptop.caps) == told and air.core.caps.next_at is None
    assert air.view("laptop").reason == "the rule of its access point is off"
    air.reconfigured(document())
    air.run(1.5)
    assert (most(laptop, own), most(gateway, phones)) == (ONE_OF_TWO, ONE_OF_TWO)


def test_caps_continue_or_end_after_a_restart_as_configured() -> None:
    air = SharedAccessPoint()
    laptop, stream = air.sender("laptop"), air.stream("laptop")
    air.run(2)
    air.restart()
    for _ in range(60):
        air.run(0.05)
        assert most(laptop, stream) == ALONE, "the earlier order holds until it is repeated"
    air.restart(sites.loaded(document("off")))
    air.run(1.2)
    assert (laptop.held, laptop.caps[-1]) == (None, WINDOW_CAPS.nothing)


def test_false_or_cut_report_is_named_and_ignored() -> None:
    air = SharedAccessPoint()
    laptop, tablet = air.sender("laptop"), air.sender("tablet")
    own, others = air.stream("laptop"), air.stream("tablet")
    air.run(2)
    for _ in range(3):
        air.tell(replace(laptop.report(), cut=True))
        air.run(0.25)
    cut = f"it reports more than {MOST_SUBFLOWS} connections at once (1 time)"
    assert (air.view("laptop").doubted, air.view("laptop").doubts) == (3, (cut,))
    lie = FakeStream(ADDRESSES["tablet"], NEAR, min_rtt_us=10, srtt_us=10, bytes_sent=10**9)
    elsewhere = FakeStream("172.17.0.2", FAR, bytes_sent=10**9)
    laptop.invented = (lie.as_subflow(), elsewhere.as_subflow())
    air.run(2)
    told = air.view("laptop")
    assert told.doubted > 3 and told.doubts == ("it reports a connection from an address that is not its own (1 time)",)
    assert (most(tablet, others), most(laptop, own)) == (ONE_OF_TWO, ONE_OF_TWO)
    assert air.view("laptop").held and not air.view("tablet").doubts


@pytest.mark.parametrize("other", ["", "::1", "10.1.0.12"])
def test_false_report_takes_no_caps_from_others_at_its_gateway(other: str) -> None:
    air = SharedAccessPoint()
    gateway, liar = air.gateway("window"), air.sender("tablet", "report", cannot={"caps": "it does not want to"})
    stream = air.stream("phone")
    air.run(2)
    lie = FakeStream(ADDRESSES["tablet"], other)
    for _ in range(4):
        lie.pass_time(0.5)
        liar.invented = (lie.as_subflow(),)
        air.run(0.5)
    assert most(gateway, stream) == ALONE, "and it is no sharer"
    assert {cap.other_address for order in gateway.caps for cap in order.caps} == {NEAR}
