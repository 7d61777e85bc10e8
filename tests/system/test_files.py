# SPDX-License-Identifier: Apache-2.0
"""ovs-flows/ contains the controller's program, and load.sh installs it whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.processes.controller import OPENFLOW, TREE, controlled
from lab.stage import ovs
from lab.stage.command import Done, run
from lab.stage.stage import Stage, raised
from lab.traffic.numbered import numbered
from tests.system.evidence import arrivals, flows, groups, program
from topologies.paper import BRIDGE, SERVER, PaperTopo

OVS_FLOWS = TREE / "ovs-flows"
PAPER = OVS_FLOWS / "paper"
FOREIGN_FLOW = "cookie=0x99,table=9,priority=3,tcp,actions=group:7"
FOREIGN_GROUP = "group_id=7,type=all,bucket=actions=output:1"
MORE_GROUP = "group_id=1644167169,type=all,bucket=actions=output:1\n"
MORE_FLOW = "cookie=0x6269636173740000,table=3,priority=9,udp actions=group:1644167169\n"
BAD = {
    "a port that the bridge has not": ("flows.txt", "gw-lte", "gw-dsl"),
    "a group that is not there": ("flows.txt", "actions=dec_ttl,group:", "actions=dec_ttl,group:1"),
    "half a line": ("groups.txt", "->eth_dst", ""),
    "a flow without our cookie": ("flows.txt", "cookie=0x6269636173740000,", ""),
    "a group out of our range": ("groups.txt", "group_id=16", "group_id=26"),
    "nothing": ("flows.txt", "cookie=", "# cookie="),
}
RATE_PPS, LOADS = 100, 20  # Open vSwitch's receive buffer holds packets of 1.5 s


def test_files_and_controller_install_the_same_program(tmp_path: Path) -> None:
    """Only the controller asks for reports of deleted flows."""
    with raised(PaperTopo(shaped=False), controller=OPENFLOW):
        with controlled(TREE / "topologies" / "paper.yaml", directory=tmp_path) as controller:
            controller.await_steady()
            own_flows, own_groups = program(BRIDGE)
        assert own_flows and own_groups
        ovs.vsctl("del-controller", BRIDGE)
        assert load(PAPER).returncode == 0
        assert program(BRIDGE) == ([flow.replace(" send_flow_rem", "") for flow in own_flows], own_groups)


def test_committed_files_equal_the_output_of_render(tmp_path: Path) -> None:
    run("./bicast", "render", "--into", str(tmp_path))
    written = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.txt")}
    kept = {path.relative_to(OVS_FLOWS): path.read_text() for path in OVS_FLOWS.rglob("*.txt")}
    assert written == kept


def load(folder: Path, bridge: str = BRIDGE) -> Done:
    return run(str(OVS_FLOWS / "load.sh"), bridge, str(folder), check=False)


def copy(into: Path, **changed: str) -> Path:
    """Copy the paper's files, with other texts in one or both."""
    shutil.copytree(PAPER, into)
    for name, text in changed.items():
        (into / f"{name}.txt").write_text(text)
    return into


@pytest.fixture(scope="module")
def net() -> Iterator[Stage]:
    with raised(PaperTopo(shaped=False)) as net:
        yield net


@pytest.fixture
def loaded(net: Stage) -> Iterator[Stage]:
    """Yield a bridge with the paper's files loaded, beside a foreign flow and group."""
    ovs.ofctl("add-group", BRIDGE, FOREIGN_GROUP)
    ovs.ofctl("add-flow", BRIDGE, FOREIGN_FLOW)
    assert load(PAPER).returncode == 0
    yield net
    ovs.ofctl("del-flows", BRIDGE)
    ovs.ofctl("del-groups", BRIDGE)


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_leaves_the_bridge_as_it_was(loaded: Stage, tmp_path: Path, what: str) -> None:
    name, right, wrong = BAD[what]
    bad = copy(tmp_path / "bad")
    text = (bad / name).read_text()
    assert right in text
    (bad / name).write_text(text.replace(right, wrong))
    more = {"flows.txt": ("groups.txt", MORE_GROUP), "groups.txt": ("flows.txt", MORE_FLOW)}[name]
    with (bad / more[0]).open("a") as other:
        other.write(more[1])  # a valid line in the other file
    before = program(BRIDGE)
    done = load(bad)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(f"{BRIDGE} is as it was")
    assert program(BRIDGE) == before


def test_load_keeps_foreign_flows_and_removes_stale_ones(loaded: Stage, tmp_path: Path) -> None:
    first = program(BRIDGE)
    more = {"groups": (PAPER / "groups.txt").read_text() + MORE_GROUP, "flows": (PAPER / "flows.txt").read_text()}
    more["flows"] += MORE_FLOW
    assert load(copy(tmp_path / "more", **more)).returncode == 0
    second = program(BRIDGE)
    assert [len(new) - len(old) for old, new in zip(first, second, strict=True)] == [1, 1]
    assert load(PAPER).returncode == 0
    assert program(BRIDGE) == first
    assert any("group:7" in flow for flow in flows(BRIDGE))
    assert any("group_id=7," in group for group in groups(BRIDGE))


def test_a_foreign_flow_in_the_place_of_ours_is_not_overwritten(loaded: Stage) -> None:
    ovs.ofctl("del-flows", BRIDGE, "cookie=0x6269636173740000/0xffffffffffff0000")
    ovs.ofctl("add-flow", BRIDGE, "table=1,priority=10,actions=drop")
    before = program(BRIDGE)
    done = load(PAPER)
    assert done.returncode == 1
    assert "stands where one of ours would (table=1 priority=10)" in done.stderr
    assert program(BRIDGE) == before


def test_reloading_files_under_traffic_loses_no_packet(loaded: Stage, tmp_path: Path) -> None:
    """Two programs alternate. Each sends the datagrams over another uplink."""
    other = tmp_path / "lte.yaml"
    other.write_text(
        (TREE / "topologies" / "paper.yaml").read_text().replace("default_uplink: wifi", "default_uplink: lte")
    )
    run("./bicast", "render", "--into", str(tmp_path), str(other))
    assert (tmp_path / "lte" / "groups.txt").read_text() != (PAPER / "groups.txt").read_text()
    router = loaded.machine("router")
    with numbered(loaded.machine("client"), loaded.machine("server"), SERVER, RATE_PPS) as stream:
        with arrivals(router, "wifi", "lte") as seen:
            for number in range(LOADS):
                assert load((tmp_path / "lte", PAPER)[number % 2]).returncode == 0
            rode = seen.since()
        counted = stream.stop()
    assert rode["wifi", "udp"] > 0 and rode["lte", "udp"] > 0
    assert (counted.lost, max(counted.copies.values())) == ([], 1)
