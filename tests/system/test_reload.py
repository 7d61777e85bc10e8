# SPDX-License-Identifier: Apache-2.0
"""SIGHUP reloads the file: a bad one is refused whole, and a good one changes only new entries."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from lab.stage.command import run
from tests.system.conftest import GatewayLab
from tests.system.evidence import OpenFlowRecorder, assert_reaches, metrics, program
from topologies.paper import BRIDGE, SERVER

IN_FORCE = "is in force"
REFUSED = "the configuration was refused"


@pytest.fixture
def edit(paper: GatewayLab) -> Iterator[GatewayLab]:
    """Yield the home, and restore and reload its file after the test."""
    before = paper.controller.file.read_text()
    yield paper
    paper.controller.file.write_text(before)
    reload(paper, IN_FORCE)


def reload(home: GatewayLab, word: str) -> None:
    home.controller.process.send_signal(signal.SIGHUP)
    home.controller.await_word(word)


def metric(name: str) -> float:
    return float(next(line.split()[-1] for line in metrics() if line.startswith(name + " ")))


def test_a_bad_file_is_refused_and_the_last_good_one_stays(edit: GatewayLab, snoop: OpenFlowRecorder) -> None:
    failures, before = metric("bicast_configuration_failures_total"), program(BRIDGE)
    text = edit.controller.file.read_text()
    heard = snoop.number()
    # A valid change beside the mistake must not take effect either.
    edit.controller.file.write_text(
        text.replace("mode: bicast", "mode: single").replace("bicast: [tcp]", "bicasts: [tcp]")
    )
    reload(edit, REFUSED)
    snoop.settled()
    assert snoop.modifications(heard) == {}
    assert program(BRIDGE) == before
    error = edit.controller.client.get("status")["config_error"]
    assert str(edit.controller.file) in error
    assert "bicasts" in error
    assert error in run("./bicast", "status").stdout
    assert metric("bicast_configuration_failures_total") == failures + 1


def test_a_good_file_changes_only_new_entries(edit: GatewayLab, snoop: OpenFlowRecorder) -> None:
    text = edit.controller.file.read_text()
    guest = """\
      guest:
        addresses: [{address: 192.168.110.77, port: gw-c1, mac: "02:00:00:00:00:77"}]
"""
    before, heard = program(BRIDGE), snoop.number()
    edit.controller.file.write_text(text + guest)
    reload(edit, IN_FORCE)
    snoop.settled()
    # Three groups, and flows for its entry, its delivery and its two classes. No other flow changes.
    assert snoop.modifications(heard) == {"OFPT_GROUP_MOD": 3, "OFPT_FLOW_MOD": 4}
    now = program(BRIDGE)
    assert set(before[0]) < set(now[0])
    assert set(before[1]) < set(now[1])
    assert_reaches(edit.net.machine("client"), "192.168.110.3", SERVER)
    assert edit.controller.client.get("status")["config_error"] is None
    assert edit.controller.client.set_mode("guest", "bicast")["messages"] == 1
