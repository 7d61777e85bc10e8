# SPDX-License-Identifier: Apache-2.0
"""Foreign entries with our cookie are removed at the next audit, even if our model cannot express them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from controller.core.core import Core
from controller.edges.config import load
from controller.model.in_force import InForce
from controller.program.diff import AddFlow, AddGroup, DeleteFlow
from controller.program.program import (
    COOKIE,
    GROUP_IDS,
    METER_IDS,
    Bucket,
    Flow,
    Group,
    GroupKind,
    Output,
    ToGroup,
    fields,
)
from controller.protocol.switch_messages import (
    Apply,
    Effect,
    FlowsLost,
    Read,
    SwitchApplied,
    SwitchEvent,
    SwitchOpened,
    SwitchRead,
    SwitchRefused,
)
from controller.switches.pacing import EVERY_S
from controller.switches.switch import GatewayState, Switch
from tests.controller.edges.openflow.conftest import WireRecorder
from tests.controller.edges.openflow.switches import Ovs

DPID = 0xC0
GATEWAY = """
sites:
  home:
    dpid: "00000000000000c0"
    uplinks:
      wifi:
        port: own1
        mac: "02:00:00:00:01:01"
        addresses: [172.16.1.2/24, "fd00:a1::2/64"]
        next_hops:
          - {address: 172.16.1.1, mac: "02:00:00:00:02:01"}
          - {address: "fd00:a1::1", mac: "02:00:00:00:02:01"}
    subnets:
      lan: {gateways: [10.0.0.1/24, "fd00:1::1/64"], mac: "02:00:00:00:03:01"}
    terminals:
      phone:
        addresses:
          - {address: 10.0.0.7, port: own2, mac: "02:00:00:00:04:07"}
          - {address: "fd00:1::7", port: own2, mac: "02:00:00:00:04:07"}
"""


class CoreOnWire:
    """The real core connected to the wire, with a clock that the test sets."""

    def __init__(self, recorder: WireRecorder) -> None:
        self._desk = recorder
        self._now = 0.0
        self._core = Core(load.parse(GATEWAY), InForce(), self._now)

    @property
    def switch(self) -> Switch:
        (switch,) = self._core.switches.values()
        return switch

    def on_event(self, event: SwitchEvent) -> None:
        self._carry_out(self._core.handle(event, self._now))

    def look(self) -> None:
        self._now += EVERY_S
        self._carry_out(self._core.tick(self._now))

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        """Perform the effects and their consequences until no order is in flight."""
        waited_for = self._perform(effects)
        while waited_for:
            said = self._desk.wait(SwitchRead | SwitchApplied | SwitchRefused)
            if not (isinstance(said, SwitchRefused) and said.change):
                waited_for.discard(said.ticket)
            waited_for |= self._perform(self._core.handle(said, self._now))

    def _perform(self, effects: Iterable[Effect]) -> set[int | None]:
        orders = list(effects)
        for order in orders:
            self._desk.perform(order)
        return {order.ticket for order in orders if isinstance(order, Read | Apply)}


@pytest.fixture
def home(recorder: WireRecorder, ovs: Ovs) -> Iterator[CoreOnWire]:
    """A core that is connected and steady on bridge `own`."""
    ovs.bridge("own", DPID, recorder.target)
    made = CoreOnWire(recorder)
    made.on_event(recorder.opened(DPID))
    assert made.switch.state is GatewayState.STEADY
    yield made
    ovs.remove("own")


MATCHES = [
    "ip,nw_ttl=3",
    "ip,nw_frag=first",
    "tcp,tcp_flags=+syn-ack",
    "ct_state=+trk+est,tcp,ct_nw_proto=6",
    "reg0=0x5/0xff,ip,nw_src=10.0.0.0/8",
    "tun_id=7,tun_src=10.0.0.1",
    "conj_id=8,ip",
    "dl_vlan=5,dl_vlan_pcp=3",
    "ipv6,ipv6_label=5",
    "mpls,mpls_label=3,mpls_ttl=4",
    "icmp6,icmp_type=135,nd_target=fe80::1,nd_sll=02:00:00:00:00:01",
    "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00",
    "udp,tp_dst=0x50/0xfff0",
    "metadata=0x5/0xff,actset_output=1",
    "dl_type=0x894f,nsh_spi=5",
]


def _shown(ovs: Ovs) -> list[str]:
    flows = ovs.ofctl("own", "dump-flows", "--no-stats")
    return sorted(f"{flows}{ovs.ofctl('own', 'dump-groups')}{ovs.ofctl('own', 'dump-meters')}".splitlines())


def _flow(match: str, actions: str = "drop") -> str:
    return f"cookie={COOKIE:#x},table=1,priority=77,{match},actions={actions}"


def test_flow_of_any_match_with_our_cookie_is_removed(home: CoreOnWire, ovs: Ovs) -> None:
    before = _shown(ovs)
    for match in MATCHES:
        ovs.ofctl("own", "add-flow", _flow(match))
    assert len(_shown(ovs)) == len(before) + len(MATCHES)
    home.look()
    assert _shown(ovs) == before
    assert (home.switch.state, home.switch.refusals) == (GatewayState.STEADY, 0)
    sent = home.switch.changes_sent
    home.look()
    assert home.switch.changes_sent == sent


def test_unknown_kinds_of_groups_and_meters_are_repaired(home: CoreOnWire, ovs: Ovs) -> None:
    before = _shown(ovs)
    stray, meter = GROUP_IDS[-1], METER_IDS[-1]
    ovs.ofctl(
        "own", "add-group", f"group_id={stray},type=select,selection_method=hash,bucket=weight:3,actions=output:1"
    )
    ovs.ofctl("own", "add-meter", f"meter={meter},kbps,burst,stats,bands=type=drop,rate=7,burst_size=7")
    ovs.ofctl("own", "add-flow", _flow("ip,nw_frag=later", f"meter:{meter},group:{stray}"))
    ours = next(iter(home.switch.installed.program.groups))
    ovs.ofctl("own", "mod-group", f"group_id={ours},type=indirect,bucket=actions=dec_ttl,output:1")
    assert _shown(ovs) != before
    home.look()
    assert _shown(ovs) == before
    assert (home.switch.state, home.switch.refusals) == (GatewayState.STEADY, 0)


@pytest.mark.parametrize("deletes", [("del-flows", "table=0"), ("del-groups",)], ids=" ".join)
def test_foreign_deletion_is_reported_at_once(
    recorder: WireRecorder, bridge: SwitchOpened, ovs: Ovs, deletes: tuple[str, ...]
) -> None:
    group = Group(GROUP_IDS[0], GroupKind.ALL, (Bucket((Output(2),)),))
    assert (
        recorder.apply(bridge.session, AddGroup(group), AddFlow(Flow(0, 1, fields(), (ToGroup(group.group_id),)))) == []
    )
    ovs.ofctl("br", *deletes)
    assert recorder.wait(FlowsLost).session == bridge.session


def test_own_deletion_is_not_reported(recorder: WireRecorder, bridge: SwitchOpened, ovs: Ovs) -> None:
    flows = [Flow(0, 1, fields(in_port=number), (Output(8),)) for number in range(1, 8)]
    assert recorder.apply(bridge.session, *map(AddFlow, flows)) == []
    assert recorder.apply(bridge.session, *map(DeleteFlow, flows[:-1])) == []
    assert recorder.apply(bridge.session, AddFlow(flows[0])) == []
    ovs.ofctl("br", "add-flow", "table=9,actions=drop")
    ovs.ofctl("br", "del-flows", "table=9")
    recorder.read(bridge.session)
    assert not [said for said in recorder.drain() if isinstance(said, FlowsLost)]
