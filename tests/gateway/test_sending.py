# SPDX-License-Identifier: Apache-2.0
"""What waits on one uplink of a userspace datapath is no reason to drop what leaves by another."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.__main__ import main
from gateway import sending
from lab.stage.ovs import PrivateOvs
from tests.gateway.conftest import shell

Files = Callable[..., str]
FRAMES = 200
FRAME_BYTES = 1500
# What is to leave by w0 waits; by default, some ninety frames may.
SLOW = "tc qdisc replace dev w0 root tbf rate 8kbit burst 10kb limit 4mb"
ETH_P_TEST = 0x88B6


@pytest.mark.usefixtures("ovs", "ports")
def test_what_waits_on_one_uplink_keeps_nothing_from_another(gateway_file: Files) -> None:
    assert main(["bridge", gateway_file()]) == 0
    shell("ovs-ofctl -O OpenFlow13 add-flow br-home in_port=c0,actions=output:w0,output:l0")
    shell(SLOW)
    assert arrived() == FRAMES
    (waiting,) = re.findall(r"backlog \d+[KM]?b (\d+)p", shell("tc -s qdisc show dev w0"))
    assert int(waiting) > 0.9 * FRAMES


@pytest.mark.usefixtures("ovs", "ports")
def test_with_the_default_room_it_would(gateway_file: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above is one of the room, and not of a kernel that charges nobody for what waits."""
    assert main(["bridge", gateway_file()]) == 0
    monkeypatch.setattr(sending, "ROOM_BYTES", 212_992)
    sending.widen("br-home")
    shell("ovs-ofctl -O OpenFlow13 add-flow br-home in_port=c0,actions=output:w0,output:l0")
    shell(SLOW)
    assert arrived() < 0.7 * FRAMES


def arrived() -> int:
    """Frames that came out of l0, of those put into c0."""
    raw = (socket.AF_PACKET, socket.SOCK_RAW)
    with socket.socket(*raw) as ear, socket.socket(*raw) as mouth:
        ear.bind(("l0-far", ETH_P_TEST))
        mouth.bind(("c0-far", 0))
        head = bytes.fromhex("020000000002 020000000003") + ETH_P_TEST.to_bytes(2, "big")
        seen: set[bytes] = set()
        for number in range(FRAMES):
            mouth.send(head + number.to_bytes(4, "big") + bytes(FRAME_BYTES - 18))
            seen |= heard(ear, 0.01)  # so that what reads them in between, by turns, has time
        return len(seen if len(seen) == FRAMES else seen | heard(ear, 3))


def heard(ear: socket.socket, within_s: float) -> set[bytes]:
    """The numbers of those that came until none did for so long."""
    ear.settimeout(within_s)
    numbers: set[bytes] = set()
    while True:
        try:
            numbers.add(ear.recv(2048)[14:18])
        except TimeoutError:
            return numbers


@pytest.mark.usefixtures("ports")
def test_room_is_given_again_after_open_vswitch_has_started_anew(
    ovs: PrivateOvs, gateway_file: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    file = gateway_file()
    assert main(["bridge", file]) == 0
    assert sending.room() == sending.ROOM_BYTES
    again(ovs)
    assert sending.room() != sending.ROOM_BYTES
    capsys.readouterr()
    assert main(["doctor", file]) == 1
    assert re.search(
        r"^bad +br-home room to send: .*\n.*\n +mend: ./bicast bridge ", capsys.readouterr().out, re.MULTILINE
    )
    assert main(["bridge", file]) == 0
    assert sending.room() == sending.ROOM_BYTES


def again(ovs: PrivateOvs) -> None:
    """As systemd starts ovs-vswitchd again after a crash."""
    pid = int((ovs.directory / "ovs-vswitchd.pid").read_text())
    death = os.pidfd_open(pid)
    signal.pidfd_send_signal(death, signal.SIGKILL)
    assert select.select([death], [], [], 60)[0], "it dies"
    os.close(death)
    subprocess.run(
        ["ovs-vswitchd", "--pidfile", "--no-chdir", "--detach", "--log-file", "-vconsole:off"], check=True, timeout=60
    )
    shell("ovs-vsctl --timeout=60 wait-until Interface w0 'ofport>0'")


@pytest.mark.usefixtures("ovs", "ports")
def test_other_sockets_of_this_host_are_left_alone(gateway_file: Files) -> None:
    default = Path("/proc/sys/net/core/wmem_default").read_text()
    assert main(["bridge", gateway_file()]) == 0
    assert Path("/proc/sys/net/core/wmem_default").read_text() == default
    assert room_of_others() == {int(default)}


def room_of_others() -> set[int]:
    """Of the packet sockets by which Open vSwitch listens, each bound to a port."""
    return {int(each) for each in re.findall(r"\*:\w0 .*?\btb(\d+)", shell("ss --packet --all --memory"), re.DOTALL)}


def test_a_stranger_with_the_pid_of_an_open_vswitch_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OVS_RUNDIR", str(tmp_path))
    (tmp_path / "ovs-vswitchd.pid").write_text(f"{os.getpid()}\n")
    assert sending.room() is None
    with pytest.raises(sending.Unreachable, match="expected ovs-vswitchd"):
        sending.widen("br-home")


@pytest.mark.usefixtures("ports")
def test_an_open_vswitch_that_stands_still_is_not_waited_for(
    ovs: PrivateOvs, gateway_file: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has not sent yet must be made to send, and does not answer."""
    assert main(["bridge", gateway_file()]) == 0
    monkeypatch.setattr(sending, "ANSWERS_WITHIN_S", 1)
    monkeypatch.setattr(sending, "_numbers", lambda pid: iter(()))
    pid = sending._daemon()
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(sending.Unreachable, match="was refused"):
            sending.widen("br-home")
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_pidfile_that_is_none_is_said_and_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVS_RUNDIR", str(tmp_path))
    os.mkfifo(tmp_path / "ovs-vswitchd.pid")
    with pytest.raises(sending.Unreachable, match="no ovs-vswitchd runs here"):
        sending.widen("br-home")
