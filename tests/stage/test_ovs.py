# SPDX-License-Identifier: Apache-2.0
"""The private Open vSwitch is private, answers when start() returns, and leaves nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.stage import isolate, ovs
from lab.stage.command import run


def daemons() -> set[str]:
    """Return the daemons that live in this world."""
    living = (line.split() for line in run("ps", "-e", "-o", "stat=,comm=").stdout.splitlines())
    return {name for state, name, *_ in living if name.startswith("ovs") and not state.startswith("Z")}


def test_a_private_ovs_answers_and_leaves_nothing_behind() -> None:
    before = dict(os.environ)
    with ovs.PrivateOvs():
        ovs.vsctl("add-br", "probe", "--", "set", "Bridge", "probe", "datapath_type=netdev")
        assert "OFPT_FEATURES_REPLY" in ovs.ofctl("show", "probe")
        assert ovs.running()
        assert daemons() == {"ovsdb-server", "ovs-vswitchd"}
    assert not ovs.running()
    assert daemons() == set()
    assert dict(os.environ) == before
    assert not ovs.DIRECTORY.exists()
    assert "probe" not in Path("/proc/net/dev").read_text()


def test_no_private_ovs_starts_outside_a_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(isolate.MARK)
    with pytest.raises(isolate.WorldError, match="only inside a world"):
        ovs.PrivateOvs().start()
    assert daemons() == set()


def test_a_second_private_ovs_in_a_world_is_refused() -> None:
    with ovs.PrivateOvs():
        with pytest.raises(isolate.WorldError, match="this world already has an Open vSwitch"):
            ovs.PrivateOvs().start()
        assert ovs.running()


def test_a_private_ovs_stops_despite_a_dead_daemon() -> None:
    with ovs.PrivateOvs() as private:
        switch = os.pidfd_open(int((private.directory / "ovs-vswitchd.pid").read_text()))
        ovs.run("kill", "-9", (private.directory / "ovs-vswitchd.pid").read_text().strip())
        ovs.select.select([switch], [], [])
        os.close(switch)
    assert daemons() == set()
