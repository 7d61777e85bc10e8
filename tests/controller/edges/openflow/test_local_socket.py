# SPDX-License-Identifier: Apache-2.0
"""The Unix socket for the local switch: its permissions, and the remains of a killed controller."""

from __future__ import annotations

import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.edges.openflow.errors import FrameworkError
from controller.model.settings import LocalSocket
from tests.controller.edges.openflow.conftest import WireRecorder
from tests.controller.edges.openflow.switches import Ovs

DPID = 0x10CA1
LISTENS = """
import sys, time
from controller.edges.openflow.app import Wire
from controller.model.settings import LocalSocket
wire = Wire(LocalSocket(sys.argv[1]), None, lambda event: None)
print("listens", flush=True)
time.sleep(600)
"""
CONNECTS = "import os, socket, sys; os.setuid(65534); socket.socket(socket.AF_UNIX).connect(sys.argv[1])"


@pytest.fixture
def path(ovs: Ovs) -> Path:
    """Open vSwitch connects only to sockets in its own directory."""
    return ovs.directory / "bicast.sock"


@contextmanager
def serving(path: Path) -> Iterator[WireRecorder]:
    recorder = WireRecorder(listen=LocalSocket(str(path)))
    try:
        yield recorder
    finally:
        recorder.wire.stop()


def test_switch_is_served_over_a_unix_socket_and_returns(ovs: Ovs, path: Path) -> None:
    with serving(path) as recorder:
        ovs.bridge("local", DPID, f"unix:{path}")
        assert recorder.opened(DPID).peer.startswith("local:")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists() and recorder.present == set(), "its session is closed"
    with serving(path) as recorder:
        recorder.read(recorder.opened(DPID).session)
        ovs.remove("local")


def test_socket_of_a_killed_controller_is_replaced(ovs: Ovs, path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", LISTENS, str(path)], stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"listens\n"
        ovs.bridge("local", DPID, f"unix:{path}")
        killed.kill()
    assert path.is_socket()
    with serving(path) as recorder:
        recorder.opened(DPID)
        ovs.remove("local")


def test_second_controller_does_not_take_over_the_socket(path: Path) -> None:
    with serving(path):
        with pytest.raises(FrameworkError, match="another controller listens there"), serving(path):
            pass
        with socket.socket(socket.AF_UNIX) as switch:
            switch.connect(str(path))


def test_directory_writable_by_others_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with (
        pytest.raises(FrameworkError, match="others may replace the socket; `chmod go-w"),
        serving(tmp_path / "openflow.sock"),
    ):
        pass


def test_file_in_the_place_of_the_socket_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "openflow.sock"
    file.write_text("precious")
    with pytest.raises(FrameworkError, match="in use"), serving(file):
        pass
    assert file.read_text() == "precious"


def test_other_user_may_not_connect(path: Path) -> None:
    for directory in (path.parent, *path.parent.parents[:-2]):
        directory.chmod(0o755)
    with serving(path):
        refused = subprocess.run(
            [sys.executable, "-c", CONNECTS, str(path)], capture_output=True, text=True, check=False
        )
    assert "PermissionError" in refused.stderr
