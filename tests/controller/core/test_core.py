# SPDX-License-Identifier: Apache-2.0
"""The core with a fake switch that executes flows: after any event, the installed program equals the compiled one."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace
from ipaddress import IPv6Address
from itertools import product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controller.core import overrides
from controller.model.config import Mode
from controller.model.observed import Port
from controller.program.diff import Change, DeleteFlow, DeleteGroup, ModifyGroup
from controller.program.program import Flow, Group, GroupKind, ToGroup, fields
from controller.protocol.requests import Impossible, UnknownTerminal
from controller.protocol.switch_messages import (
    Apply,
    Close,
    Effect,
    FlowsLost,
    NeighbourSeen,
    PortSeen,
    Read,
    Solicited,
    SwitchApplied,
    SwitchClosed,
    SwitchEvent,
    SwitchOpened,
    SwitchRead,
    SwitchRefused,
)
from controller.readout.build import snapshot
from controller.switches.pacing import ANSWERS_WITHIN_S as ANSWERS_TO_ALL_S
from controller.switches.switch import TOLD_EVERY_S, GatewayState
from tests.controller import sites
from tests.controller.pair import CoreAndSwitch
from tests.controller.sites import LTE_HOP_MAC, PHONE_MAC, PORTS
from tests.fakes.admission import TableRefusal
from tests.fakes.switch import FakeSwitch


def connected(written: dict[str, object] | None = None, fake: FakeSwitch | None = None) -> CoreAndSwitch:
    pair = CoreAndSwitch(sites.loaded(written or sites.document()), [fake or FakeSwitch(PORTS)])
    pair.connect()
    pair.drain()
    return pair


def all_answer(pair: CoreAndSwitch, dpid: int = 1) -> None:
    """Let every neighbour that is asked by ARP or discovery answer with its MAC."""
    for (name, address), mac in sites.learned(pair.switch(dpid).site).items():
        session = pair.switch(dpid).session
        if name in pair.fakes[dpid].ports and session is not None:
            pair.tell(NeighbourSeen(session, pair.fakes[dpid].ports[name].number, address, mac))
    pair.drain()


def session_of(pair: CoreAndSwitch) -> int:
    session = pair.switch().session
    assert session is not None
    return session


def sent(pair: CoreAndSwitch) -> int:
    return sum(pair.fakes[1].changes.values())


def test_restart_keeps_overrides_and_macs_and_sends_nothing() -> None:
    pair = connected()
    all_answer(pair)
    pair.carry(overrides.mode(pair.core, "client", Mode.SINGLE, pair.now)[1])
    pair.carry(overrides.active(pair.core, "client", "lte", pair.now)[1])
    pair.drain()
    before, installed = sent(pair), pair.installed()
    pair.restart()
    pair.drain()
    assert sent(pair) == before and pair.installed() == installed == pair.compiled()


def test_mac_seen_after_a_restart_replaces_the_one_read_back() -> None:
    pair = connected()
    all_answer(pair)
    pair.restart()
    where, newer = next(iter(sites.learned(pair.switch().site))), "02:00:00:00:00:99"
    pair.tell(NeighbourSeen(session_of(pair), PORTS[where[0]].number, where[1], newer))
    pair.drain()
    assert pair.switch().observed.macs[where] == newer


def test_repeated_deletions_cause_one_reading_a_second() -> None:
    """The foreign deletion lasts for at most a second."""
    pair = connected()
    wanted, session, readings = pair.installed(), session_of(pair), 0
    for _ in range(10):
        for _ in range(100):
            pair.fakes[1].change(DeleteFlow(next(iter(wanted.flows.values()))))
            effects = list(pair.core.handle(FlowsLost(session), pair.now))
            readings += sum(isinstance(effect, Read) for effect in effects)
            pair.carry(effects)
            pair.drain()
        pair.pass_time(1.0)
        pair.drain()
        assert pair.installed() == wanted
    assert readings <= 10


class AnnouncingSwitch(FakeSwitch):
    """A switch that announces foreign deletions, further ones only after the next reading, as speaker.py does."""

    announced = False

    def read(self, order: Read) -> SwitchRead:
        self.announced = False
        return super().read(order)


class DelayedPair(CoreAndSwitch):
    """A pair with delayed answers, as in OpenFlow: flows may be deleted between a reading and the end of its answer."""

    def __init__(self) -> None:
        self.fake = AnnouncingSwitch(PORTS)
        super().__init__(sites.loaded(sites.document()), [self.fake])
        self._answers: deque[SwitchEvent] = deque()
        self._reading: SwitchRead | None = None  # the flows are listed; groups, meters and ports follow

    def lose(self, flow: Flow) -> None:
        self.fake.change(DeleteFlow(flow))
        session = self.switch().session
        if not self.fake.announced and session is not None:
            self.fake.announced = True
            self._answers.append(FlowsLost(session))

    def step(self) -> bool:
        if self._answers:
            self.tell(self._answers.popleft())
        elif self._reading:
            self._answers.append(self._reading)
            self._reading = None
        else:
            return super().step()
        return True

    def _arrive(self, effect: Effect, fake: FakeSwitch) -> None:
        match effect:
            case Read():
                self._reading = fake.read(effect)
            case Apply():
                self._answers.extend(fake.apply(effect))
            case _:
                super()._arrive(effect, fake)


def test_deleted_flows_return_within_a_second() -> None:
    """The numbers are counts of messages between two deletions. The first two deletions happen at once."""
    for steps in product(range(7), repeat=2):
        pair = DelayedPair()
        pair.connect()
        pair.drain()
        all_answer(pair)
        doomed = iter(list(pair.installed().flows.values()))
        for number in (0, 0, *steps):
            for _ in range(number):
                pair.step()
            pair.lose(next(doomed))
        pair.drain()
        pair.pass_time(1.0)
        pair.drain()
        assert pair.installed() == pair.compiled(), steps
        assert (pair.switch().state, pair.switch().last_error) == (GatewayState.STEADY, None), steps


def test_deleted_flows_return_during_a_mode_change() -> None:
    written = sites.document()
    for terminal in written["sites"]["home"]["terminals"].values():
        terminal["mode"] = "bicast"  # with "auto" the switch is read each second in any case
    pair = connected(written)
    all_answer(pair)
    pair.pass_time(2.0)  # the regular reading; the next one is 9 s later
    pair.drain()
    pair.fakes[1].change(DeleteFlow(next(iter(pair.installed().flows.values()))))
    pair.tell(FlowsLost(session_of(pair)))
    pair.carry(overrides.mode(pair.core, "client", Mode.SINGLE, pair.now)[1])
    pair.drain()
    pair.pass_time(1.0)
    pair.drain()
    assert pair.installed() == pair.compiled()
    assert pair.switch().state is GatewayState.STEADY


def test_foreign_entries_stay_and_a_conflict_is_named() -> None:
    fake, contested = FakeSwitch(PORTS), Flow(1, 10, fields())
    for flow in (Flow(0, 1, fields(in_port=9)), contested):
        fake.add_foreign(flow)
    fake.groups[7] = Group(7, GroupKind.ALL, ())
    pair = connected(fake=fake)
    assert fake.flows[contested.key] == contested and 7 in fake.groups
    (view,) = snapshot(pair.core, "gateway.yaml", "1.2.0", pair.now, 0.0).gateways
    assert len(view.conflicts) == 1 and view.state is GatewayState.STEADY and view.name == "home"


def test_refusal_names_the_group_and_is_retried_slowly() -> None:
    fake = RefusingSwitch(PORTS)
    pair = connected(fake=fake)
    assert pair.switch().state is GatewayState.REFUSED
    assert "client bicast from 192.168.110.3" in (pair.switch().last_error or "")
    refusals = pair.switch().refusals
    pair.pass_time(1)
    pair.drain()
    assert pair.switch().refusals == refusals
    fake.refuses = False
    pair.pass_time(60)
    pair.drain()
    assert pair.switch().state is GatewayState.STEADY and pair.switch().last_error is None
    assert pair.installed() == pair.compiled()


class RefusingSwitch(FakeSwitch):
    refuses = True

    def _put_group(self, group: Group) -> None:
        if self.refuses and group.label == "client bicast from 192.168.110.3":
            raise TableRefusal("OFPGMFC_OUT_OF_GROUPS", "the table is full")
        super()._put_group(group)


def test_refused_reading_is_repeated_at_the_next_audit() -> None:
    pair = CoreAndSwitch(sites.loaded(sites.document()), [FakeSwitch(PORTS)])
    (read,) = pair.core.handle(pair.fakes[1].opened(7), pair.now)
    assert isinstance(read, Read)
    pair.tell(SwitchRefused(7, read.ticket, None, "too busy"))
    assert pair.switch().state is GatewayState.REFUSED and ("a read request: too busy") in (
        pair.switch().last_error or ""
    )
    pair.now += 60
    assert [type(effect) for effect in pair.core.tick(pair.now) if isinstance(effect, Read)] == [Read]


def test_unrelated_errors_change_no_state_and_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    pair = connected()
    session = session_of(pair)
    caplog.clear()
    for at in range(100):
        pair.tell(SwitchRefused(session, None, None, f"error {at}"))
    assert pair.switch().state is GatewayState.STEADY
    assert ["error 0" in record.message for record in caplog.records if record.levelno >= logging.WARNING] == [True]
    pair.pass_time(TOLD_EVERY_S)
    pair.tell(SwitchRefused(session, None, None, "error again"))
    assert "error again" in caplog.text


def test_retries_are_bounded_if_a_group_is_never_modified() -> None:
    pair = connected(fake=UnchangingSwitch(PORTS))
    pair.carry(overrides.mode(pair.core, "client", Mode.SINGLE, pair.now)[1])
    pair.drain()
    assert pair.switch().state is GatewayState.REFUSED and pair.switch().refusals < 20


class UnchangingSwitch(FakeSwitch):
    def change(self, change: Change) -> None:
        if isinstance(change, ModifyGroup):
            raise TableRefusal("OFPGMFC_EPERM", "no")
        super().change(change)


def test_switch_that_answers_no_reading_is_disconnected() -> None:
    pair = CoreAndSwitch(sites.loaded(sites.document()), [FakeSwitch(PORTS)])
    (read,) = pair.core.handle(pair.fakes[1].opened(7), pair.now)
    assert isinstance(read, Read)
    for _ in range(int(ANSWERS_TO_ALL_S) - 1):
        pair.now += 1
        assert not [effect for effect in pair.core.tick(pair.now) if isinstance(effect, Close)]
    pair.now += 1
    (closed,) = [effect for effect in pair.core.tick(pair.now) if isinstance(effect, Close)]
    assert closed.session == 7 and "the request for its program" in closed.reason
    assert pair.switch().state is GatewayState.ABSENT and closed.reason in (pair.switch().last_error or "")
    list(pair.core.handle(pair.fakes[1].opened(8), pair.now))
    assert pair.switch().last_error, "the error is shown until the repair"
    pair.tell(SwitchClosed(8))
    pair.connect()
    pair.drain()
    assert pair.switch().state is GatewayState.STEADY and pair.switch().last_error is None


@pytest.mark.parametrize("late", [False, True], ids=["never", "late"])
def test_switch_that_answers_no_barrier_is_disconnected(late: bool) -> None:
    pair = connected()
    session, tickets, closed = session_of(pair), [], []
    for at in range(40):
        pair.now += 0.5
        mode = (Mode.SINGLE, Mode.BICAST)[at % 2]
        for effect in (*overrides.mode(pair.core, "client", mode, pair.now)[1], *pair.core.tick(pair.now)):
            match effect:
                case Apply():
                    tickets.append(effect.ticket)
                case Read():
                    pair.tell(pair.fakes[1].read(effect))
                case Close():
                    closed.append(effect)
        if late and len(tickets) > 5:  # always some barriers behind
            pair.tell(SwitchApplied(session, tickets[-5]))
    assert len(closed) == (not late)
    assert late or (
        "barrier after a change" in closed[0].reason and closed[0].reason in (pair.switch().last_error or "")
    )


def test_flapping_port_causes_few_compilations_and_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    pair = connected()
    all_answer(pair)
    caplog.clear()
    before, asked = pair.switch().reconciles, len(pair.asked)
    pair.port("veth-of-somebody", Port(77, "02:00:00:00:00:77", True))
    pair.drain()
    assert pair.switch().reconciles == before, "a foreign port causes none"
    for at in range(5000):  # 5 s
        pair.now += 0.001
        pair.port("wifi0", replace(PORTS["wifi0"], up=bool(at % 2)) if at % 3 else None)
        if at % 1000 == 999:
            pair.pass_time(0)
        pair.drain()
    assert pair.switch().reconciles - before < 150  # of 5,000 changes
    assert len(pair.asked) - asked < 100
    assert ["wifi0" in record.message for record in caplog.records if record.levelno >= logging.WARNING] == [True]
    pair.port("wifi0", replace(PORTS["wifi0"], up=False))
    pair.pass_time(1)
    pair.drain()
    assert pair.installed() == pair.compiled()
    assert copied_over_one(pair)


def copied_over_one(pair: CoreAndSwitch) -> bool:
    return {len(group.buckets) for group in pair.installed().groups.values() if "bicast" in group.label} == {1}


def test_switch_is_not_blamed_for_ports_that_change_meanwhile() -> None:
    pair = connected()
    all_answer(pair)
    pair.fakes[1].change(DeleteFlow(next(iter(pair.installed().flows.values()))))
    pair.pass_time(30.0)
    while pair.switch().state is GatewayState.STEADY:  # until the missing flow has been found and sent
        assert pair.step()
    for at in range(100):  # more than the number settled at once
        pair.port("wifi0", replace(PORTS["wifi0"], number=7000 + at))
        pair.step()
    assert pair.switch().last_error is None
    pair.drain()
    assert pair.switch().state is GatewayState.STEADY


def test_downed_uplink_is_removed_at_once_or_after_many_events_within_100_ms() -> None:
    pair = connected()
    all_answer(pair)
    event = PortSeen(session_of(pair), "wifi0", replace(PORTS["wifi0"], up=False))
    applied, *others = pair.core.handle(event, pair.now)
    assert isinstance(applied, Apply) and {type(change) for change in applied.changes} == {ModifyGroup}
    pair.carry([applied, *others])
    for at in range(100):
        pair.port("wifi0", replace(PORTS["wifi0"], up=bool(at % 2)))
    pair.port("wifi0", replace(PORTS["wifi0"], up=False))
    due = pair.core.rests_at()
    assert due is not None and due - pair.now < 0.1
    pair.now = due
    pair.drain()
    assert copied_over_one(pair)
    later = pair.core.rests_at()
    assert later is None or later - pair.now >= 0.1, "only the next reading of counters is due"


def test_repeated_solicitations_are_answered_once_a_second() -> None:
    pair = connected()
    session = session_of(pair)
    gateway, nobody = IPv6Address("fd00:110::2"), IPv6Address("::")
    for _ in range(30):  # 3 s
        pair.now += 0.1
        for _ in range(10):
            pair.tell(Solicited(session, PORTS["c1"].number, gateway, nobody, PHONE_MAC))
        pair.drain()
    assert 3 <= len(pair.advertised) <= 4
    before = len(pair.advertised)
    pair.tell(Solicited(session, PORTS["c1"].number, gateway, IPv6Address("fd00:110::3"), PHONE_MAC))
    pair.drain()
    assert len(pair.advertised) == before + 1, "one flooding asker does not delay another"


def test_gateway_with_one_address_converges() -> None:
    written = sites.document()
    written["sites"]["home"]["subnets"]["one"] = {"gateways": ["10.9.0.1/32", "fd00:9::1/128"]}
    pair = connected(written)
    assert pair.switch().state is GatewayState.STEADY
    values = [value for flow in pair.installed().flows.values() for _, value in flow.match]
    assert not [value for value in values if str(value).endswith(("/32", "/128"))]


def test_waiting_switch_replaces_one_that_leaves() -> None:
    pair = connected()
    served = session_of(pair)
    list(pair.core.handle(SwitchOpened(77, 1, "elsewhere", PORTS), pair.now))
    (read,) = pair.core.handle(SwitchClosed(served), pair.now)
    assert isinstance(read, Read) and read.session == pair.switch().session == 77


def test_removed_site_keeps_its_flows_and_closes_its_switches() -> None:
    pair = connected()
    before = pair.installed()
    list(pair.core.handle(SwitchOpened(77, 1, "elsewhere", PORTS), pair.now))
    other = sites.document()
    other["sites"]["home"]["dpid"] = "0000000000000002"
    effects = list(pair.core.reconfigure(sites.loaded(other), pair.now))
    assert [effect.session for effect in effects if isinstance(effect, Close)] == [1, 77]
    pair.carry(effects)
    pair.drain()
    assert pair.installed() == before


def test_changing_mac_causes_one_change_a_second() -> None:
    pair = connected()
    all_answer(pair)
    session, before = session_of(pair), pair.switch().reconciles
    hop = pair.switch().site.uplink("lte").next_hops[0].address
    for at in range(200):  # 10 s
        pair.now += 0.05
        pair.tell(NeighbourSeen(session, PORTS["lte0"].number, hop, f"0a:00:00:00:00:{at:02x}"))
        pair.drain()
        if at % 20 == 19:
            pair.pass_time(0)
            pair.drain()
    assert 9 <= pair.switch().reconciles - before <= 12
    pair.pass_time(1)
    pair.drain()
    assert "0a:00:00:00:00:c7" in str(pair.installed().groups)
    assert pair.installed() == pair.compiled()


def test_mac_is_learned_only_if_unconfigured_and_on_its_port() -> None:
    pair = connected()
    all_answer(pair)
    before, session = pair.installed(), session_of(pair)
    written = pair.switch().site.uplink("wifi").next_hops[0].address
    learned = pair.switch().site.uplink("lte").next_hops[0].address
    pair.tell(NeighbourSeen(session, PORTS["wifi0"].number, written, "0a:00:00:00:00:66"))
    for place in pair.switch().site.terminals[0].addresses:
        assert place.mac
        pair.tell(NeighbourSeen(session, PORTS[place.port].number, place.address, "0a:00:00:00:00:66"))
    pair.tell(NeighbourSeen(session, PORTS["lan0"].number, learned, "0a:00:00:00:00:66"))
    pair.drain()
    assert pair.installed() == before


@pytest.mark.parametrize(("datapath", "told"), [("netdev", 1), ("system", 2)])
def test_duplicate_gateway_address_is_defended(datapath: str, told: int) -> None:
    written = sites.document()
    written["sites"]["home"]["datapath"] = datapath
    pair = connected(written)
    session = session_of(pair)
    subnet = pair.switch().site.subnet("wifi-side")
    asker = pair.switch().site.terminals[0].addresses[2].address
    nobody = IPv6Address("::")
    pair.tell(Solicited(session, PORTS["c1"].number, subnet.gateways[1].ip, nobody, PHONE_MAC))
    pair.tell(Solicited(session, PORTS["c1"].number, asker, nobody, PHONE_MAC))
    pair.tell(Solicited(session, PORTS["c1"].number, subnet.gateways[1].ip, asker, PHONE_MAC))
    pair.drain()
    answers = [(each.mac, each.out_port) for each in pair.advertised]
    assert answers == [("08:00:27:f9:49:62", PORTS["c1"].number)] * told


def test_removed_mode_override_follows_the_file() -> None:
    written = sites.document()
    pair = connected(written)
    all_answer(pair)
    pair.carry(overrides.mode(pair.core, "client", Mode.SINGLE, pair.now)[1])
    back, effects = overrides.mode(pair.core, "all", None, pair.now)
    pair.carry(effects)
    assert back.changed and back.messages == 3 and not pair.core.overrides.modes
    again, effects = overrides.mode(pair.core, "client", None, pair.now)
    assert not again.changed and not effects
    written["sites"]["home"]["terminals"]["client"]["mode"] = "off"
    pair.carry(pair.core.reconfigure(sites.loaded(written), pair.now))
    pair.drain()
    assert pair.core.overrides.mode(pair.switch().site.terminals[0]) is Mode.OFF
    assert pair.installed() == pair.compiled()


def test_impossible_override_changes_nothing() -> None:
    written = sites.document()
    del written["sites"]["home"]["uplinks"]["lte"]["next_hops"][1]
    written["sites"]["home"]["subnets"]["lte-side"]["gateways"] = ["192.168.210.2/24"]
    pair = connected(written)
    with pytest.raises(UnknownTerminal, match="no terminal is named 'nobody'; there are: client"):
        overrides.mode(pair.core, "nobody", Mode.OFF, pair.now)
    with pytest.raises(Impossible, match="no uplink named 'dsl'"):
        overrides.active(pair.core, "client", "dsl", pair.now)
    with pytest.raises(Impossible, match="no next hop for IPv6"):
        overrides.active(pair.core, "client", "lte", pair.now)
    assert not pair.core.overrides.modes and not pair.core.overrides.active


class AnyInterleaving(RuleBasedStateMachine):
    """After events in any order, the installed program equals the compiled one, and nothing more is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.written = sites.document()
        self.pair = CoreAndSwitch(sites.loaded(self.written), [FakeSwitch(PORTS)])

    @rule()
    def connect(self) -> None:
        self.pair.connect()

    @rule()
    def reconnect(self) -> None:
        self.pair.come_back()

    @rule()
    def disconnect(self) -> None:
        self.pair.disconnect()

    @rule()
    def restart(self) -> None:
        self.pair.restart()

    @rule(steps=st.integers(1, 4))
    def deliver(self, steps: int) -> None:
        for _ in range(steps):
            self.pair.step()

    @rule(name=st.sampled_from(sorted(PORTS)), up=st.booleans())
    def change_port_state(self, name: str, up: bool) -> None:
        self.pair.up(name, up)

    @rule(name=st.sampled_from(sorted(PORTS)))
    def remove_port(self, name: str) -> None:
        self.pair.port(name, None)

    @rule(name=st.sampled_from(sorted(PORTS)), number=st.integers(0, 1), up=st.booleans())
    def add_port(self, name: str, number: int, up: bool) -> None:
        port = PORTS[name]
        self.pair.port(name, Port(port.number + 10 * number, port.mac, up))

    @rule(name=st.sampled_from(["client", "phone", "all"]), mode=st.sampled_from([*Mode, None]))
    def override_mode(self, name: str, mode: Mode | None) -> None:
        self.pair.carry(overrides.mode(self.pair.core, name, mode, self.pair.now)[1])

    @rule(name=st.sampled_from(["client", "phone"]), uplink=st.sampled_from(["wifi", "lte", "auto"]))
    def override_uplink(self, name: str, uplink: str) -> None:
        self.pair.carry(overrides.active(self.pair.core, name, uplink, self.pair.now)[1])

    @rule(at=st.integers(0, 5), mac=st.sampled_from([PHONE_MAC, LTE_HOP_MAC]))
    def learn_mac(self, at: int, mac: str) -> None:
        places = list(sites.learned(self.pair.switch().site))
        name, address = places[at % len(places)]
        session = self.pair.switch().session
        if session is not None and name in self.pair.fakes[1].ports:
            self.pair.tell(NeighbourSeen(session, self.pair.fakes[1].ports[name].number, address, mac))

    @rule(tablet=st.booleans(), bicast=st.sampled_from([["tcp"], ["tcp", "udp"], ["all"]]))
    def reconfigure(self, tablet: bool, bicast: list[str]) -> None:
        home = sites.document()["sites"]["home"]
        home["bicast"] = bicast
        if tablet:
            home["terminals"]["tablet"] = {"addresses": [{"address": "10.1.0.8", "port": "lan0", "mac": PHONE_MAC}]}
        self.pair.carry(self.pair.core.reconfigure(sites.loaded({"sites": {"home": home}}), self.pair.now))

    @rule(at=st.integers(0, 100))
    def delete_flow(self, at: int) -> None:
        flows = list(self.pair.installed().flows.values())
        if flows:
            self.pair.fakes[1].change(DeleteFlow(flows[at % len(flows)]))

    @rule(at=st.integers(0, 100))
    def delete_group(self, at: int) -> None:
        groups = list(self.pair.installed().groups)
        if groups:
            self.pair.fakes[1].change(DeleteGroup(groups[at % len(groups)]))

    @rule(seconds=st.sampled_from([1.0, 5.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        self.pair.pass_time(seconds)

    @invariant()
    def flows_use_only_installed_groups(self) -> None:
        fake = self.pair.fakes[1]
        for flow in fake.flows.values():
            assert all(action.group_id in fake.groups for action in flow.actions if isinstance(action, ToGroup))

    def teardown(self) -> None:
        if self.pair.switch().session is None:
            self.pair.connect()
        self.pair.drain()
        for _ in range(3):  # an audit, and one after its repairs
            self.pair.pass_time(30.0)
            self.pair.drain()
        assert self.pair.installed() == self.pair.compiled()
        before = sum(self.pair.fakes[1].changes.values())
        self.pair.pass_time(30.0)
        self.pair.drain()
        assert sum(self.pair.fakes[1].changes.values()) == before
        assert self.pair.switch().state is GatewayState.STEADY


TestAnyInterleaving = AnyInterleaving.TestCase
TestAnyInterleaving.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_simultaneous_answers_cause_one_change() -> None:
    pair = connected()
    before = pair.switch().reconciles
    all_answer(pair)
    assert len(sites.learned(pair.switch().site)) > 1 and pair.switch().reconciles == before + 1
    assert pair.installed() == pair.compiled()
