"""The shared access point is what its gateway file says, and its air carries one direction at a time."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from controller.edges.config import load
from lab.processes.controller import OPENFLOW, TREE, controlled
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from topologies.access_point import (
    AIR_BPS,
    BRIDGE,
    MOST_TERMINALS,
    RTTS_MS,
    SERVERS,
    TERMINALS,
    AccessPointTopo,
    address,
    air,
)

FILE = TREE / "topologies" / "access_point.yaml"
SITE = load.load(str(FILE)).sites[0]
NAMES = ("t1", "t2")
FLOOD = """
import socket, sys, time
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
line.connect((sys.argv[1], 9))
print("floods", flush=True)
while True:  # 24 Mbit/s
    try:
        for _ in range(20):
            line.send(bytes(1400))
    except ConnectionRefusedError:
        pass
    time.sleep(0.0095)
"""
FLOODED_S = 1.0
SOON_S = 60.0


@pytest.fixture(scope="module")
def net() -> Iterator[Stage]:
    with controlled(FILE) as controller, raised(AccessPointTopo(len(NAMES)), controller=OPENFLOW) as net:
        controller.await_steady()
        ways = [("t1", server) for server in SERVERS.values()] + [("t2", SERVERS["s4"])]
        deadline = time.monotonic() + SOON_S
        for name, server in ways:  # until MACs are learned
            while net.machine(name).run("ping", "-c", "1", "-W", "1", server, check=False).returncode != 0:
                assert time.monotonic() < deadline, f"{server} does not answer {name}"
        yield net


def least_rtt_ms(machine: Machine, to: str) -> float:
    told = machine.run("ping", "-c", "5", "-i", "0.05", "-W", "2", "-q", to).stdout
    found = re.search(r"rtt min\S+ = ([\d.]+)/", told)
    assert found, told
    return float(found[1])


@pytest.mark.timed
@pytest.mark.parametrize("server", SERVERS)
def test_each_server_is_as_far_as_its_name_says(net: Stage, server: str) -> None:
    for name in NAMES:
        assert RTTS_MS[server] <= least_rtt_ms(net.machine(name), SERVERS[server]) < RTTS_MS[server] + 8


@pytest.mark.timed
def test_both_directions_together_get_the_one_rate(net: Stage) -> None:
    ways = {"t1": SERVERS["s4"], "s4": address("t1")}
    for source, to in ways.items():  # whoever sends nothing would not be asked whether anybody listens there
        net.machine(source).run("ping", "-c", "1", to)
    floods = [net.machine(name).popen([sys.executable, "-c", FLOOD, to], text=True) for name, to in ways.items()]
    try:
        for each in floods:
            assert each.stdout is not None
            assert each.stdout.readline() == "floods\n"
        before, began = net.uplink("air").counters(), time.monotonic()
        time.sleep(FLOODED_S)
        after, took_s = net.uplink("air").counters(), time.monotonic() - began
    finally:
        for each in floods:
            end(each)
    up_bps, down_bps = (
        (later.out_bytes - sooner.out_bytes) * 8 / took_s for later, sooner in zip(after, before, strict=True)
    )
    assert up_bps + down_bps == pytest.approx(AIR_BPS, rel=0.1)
    assert min(up_bps, down_bps) > 0.3 * AIR_BPS


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_its_links_are_shaped_as_it_says(net: Stage) -> None:
    link = net.uplink("air")
    assert link.forward.shape == link.backward.shape == air()
    assert (air().rate_bps, air().shared, air(0.05).contention) == (AIR_BPS, True, 0.05)


def test_the_gateway_s_file_knows_the_ten_terminals_and_their_air() -> None:
    assert (SITE.bridge, SITE.access_points[0].bandwidth_bps) == (BRIDGE, AIR_BPS)
    places = {terminal.name: [str(at.address) for at in terminal.addresses] for terminal in SITE.terminals}
    assert places == {name: [address(name)] for name in TERMINALS}
    assert {terminal.access_point for terminal in SITE.terminals} == {"air"}


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"terminals": 0}, "terminals=0"),
        ({"terminals": MOST_TERMINALS + 1}, "expected 1 to 10"),
        ({"contention": 1}, "contention is 1"),
        ({"foo": 1}, "no parameter foo"),
    ],
)
def test_a_bad_parameter_is_refused(parameters: dict[str, int], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        AccessPointTopo(**parameters)
