# SPDX-License-Identifier: Apache-2.0
"""The shared access point matches its gateway file."""

from __future__ import annotations

import pytest

from controller.edges.config import load
from lab.processes.controller import TREE
from topologies.access_point import (
    AIR_BPS,
    BRIDGE,
    MOST_TERMINALS,
    TERMINALS,
    AccessPointTopo,
    address,
)

FILE = TREE / "topologies" / "access_point.yaml"
SITE = load.load(str(FILE)).sites[0]


def test_the_gateway_file_matches_the_topology() -> None:
    assert (SITE.bridge, SITE.access_points[0].bandwidth_bps) == (BRIDGE, AIR_BPS)
    places = {terminal.name: [str(at.address) for at in terminal.addresses] for terminal in SITE.terminals}
    assert places == {name: [address(name)] for name in TERMINALS}
    assert {terminal.access_point for terminal in SITE.terminals} == {"air"}


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"terminals": 0}, "terminals=0"),
        ({"terminals": MOST_TERMINALS + 1}, "whole number from 1 to 10"),
        ({"contention": 1}, "contention is 1"),
        ({"foo": 1}, "unknown parameter foo"),
    ],
)
def test_a_bad_parameter_is_refused(parameters: dict[str, int], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        AccessPointTopo(**parameters)
