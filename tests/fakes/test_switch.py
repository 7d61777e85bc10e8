# SPDX-License-Identifier: Apache-2.0
"""The fake switch refuses a packet for which two flows tie, which a real one would settle by chance."""

from __future__ import annotations

import pytest

from controller.program.program import Flow, Output, Program, Value, fields
from tests.fakes.fields import IllDefined
from tests.fakes.packet import tcp
from tests.fakes.switch import FakeSwitch

HOME, WIFI, LTE = 1, 2, 3


def flow(port: int, priority: int = 1, **match: Value) -> Flow:
    return Flow(0, priority, fields(eth_type=0x0800, **match), (Output(port),))


def leaves(*flows: Flow, destination: str = "10.0.0.9") -> list[int]:
    switch = FakeSwitch.with_ports("home", "wifi", "lte").load(Program.of(flows, []))
    return [sent.port for sent in switch.send(tcp("192.168.110.3", destination), HOME).sent]


def test_a_tie_between_two_flows_is_ill_defined() -> None:
    tied = flow(WIFI, ipv4_src="192.168.110.3"), flow(LTE, ipv4_dst="10.0.0.0/8")
    with pytest.raises(IllDefined, match="2 flows of one priority"):
        leaves(*tied)
    assert leaves(*tied, destination="11.0.0.1") == [WIFI]
    assert leaves(*tied, flow(LTE, priority=2)) == [LTE], "a tie below the flow that wins does no harm"
