# SPDX-License-Identifier: Apache-2.0
"""A queue on one uplink of a userspace datapath does not cause drops on another."""

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
Captured = pytest.CaptureFixture[str]
FRAMES = 200
FRAME_BYTES = 1500
# Frames wait at w0. The default buffer has room for some ninety of them.
SLOW = "tc qdisc replace dev w0 root tbf rate 8kbit burst 10kb limit 4mb"
ETH_P_TEST = 0x88B6


@pytest.mark.usefixtures("ovs", "ports")
def test_a_queue_on_one_uplink_does_not_block_another(gateway_file: Files) -> None:
    assert main(["bridge", gateway_file()]) == 0
    shell("ovs-ofctl -O OpenFlow13 add-flow br-home in_port=c0,actions=output:w0,output:l0")
    shell(SLOW)
    assert sent_through() == FRAMES
    (waiting,) = re.findall(r"backlog \d+[KM]?b (\d+)p", shell("tc -s qdisc show dev w0"))
    assert int(waiting) > 0.9 * FRAMES


@pytest.mark.usefixtures("ovs", "ports")
def test_a_queue_blocks_another_uplink_with_default_buffers(
    gateway_file: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This control shows that the buffer decides the test above: some kernels may not charge for waiting frames."""
    assert main(["bridge", gateway_file()]) == 0
    monkeypatch.setattr(sending, "ROOM_BYTES", 212_992)
    sending.widen("br-home")
    shell("ovs-ofctl -O OpenFlow13 add-flow br-home in_port=c0,actions=output:w0,output:l0")
    shell(SLOW)
    assert sent_through() < 0.7 * FRAMES


def sent_through() -> int:
    """Send frames into c0 and return how many leave l0."""
    raw = (socket.AF_PACKET, socket.SOCK_RAW)
    with socket.socket(*raw) as receiver, socket.socket(*raw) as sender:
        receiver.bind(("l0-far", ETH_P_TEST))
        sender.bind(("c0-far", 0))
        head = bytes.fromhex("020000000002 020000000003") + ETH_P_TEST.to_bytes(2, "big")
        seen: set[bytes] = set()
        for number in range(FRAMES):
            sender.send(head + number.to_bytes(4, "big") + bytes(FRAME_BYTES - 18))
            seen |= received(receiver, 0.01)  # time for Open vSwitch, which reads its ports in turns
        return len(seen if len(seen) == FRAMES else seen | received(receiver, 3))


def received(receiver: socket.socket, within_s: float) -> set[bytes]:
    """Return the numbers of the frames that arrive, until none arrives for `within_s`."""
    receiver.settimeout(within_s)
    numbers: set[bytes] = set()
    while True:
        try:
            numbers.add(receiver.recv(2048)[14:18])
        except TimeoutError:
            return numbers


@pytest.mark.usefixtures("ports")
def test_bridge_widens_buffers_again_after_ovs_restarts(ovs: PrivateOvs, gateway_file: Files, capsys: Captured) -> None:
    file = gateway_file()
    assert main(["bridge", file]) == 0
    assert sending.room() == sending.ROOM_BYTES
    restart(ovs)
    assert sending.room() != sending.ROOM_BYTES
    capsys.readouterr()
    assert main(["doctor", file]) == 1
    assert re.search(r"^bad +br-home send buffer: ", capsys.readouterr().out, re.MULTILINE)
    assert main(["bridge", file]) == 0
    assert sending.room() == sending.ROOM_BYTES


def restart(ovs: PrivateOvs) -> None:
    """Kill ovs-vswitchd and start it again, like systemd after a crash."""
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
    """Return the buffer sizes of Open vSwitch's receiving packet sockets, each bound to a port."""
    return {int(each) for each in re.findall(r"\*:\w0 .*?\btb(\d+)", shell("ss --packet --all --memory"), re.DOTALL)}


def test_another_process_with_the_ovs_pid_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OVS_RUNDIR", str(tmp_path))
    (tmp_path / "ovs-vswitchd.pid").write_text(f"{os.getpid()}\n")
    assert sending.room() is None
    with pytest.raises(sending.Unreachable, match="expected ovs-vswitchd"):
        sending.widen("br-home")


@pytest.mark.usefixtures("ports")
def test_widen_fails_when_ovs_hangs(ovs: PrivateOvs, gateway_file: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """An Open vSwitch that has sent nothing yet must be asked to send, and does not answer."""
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


def test_widen_fails_when_the_pidfile_is_a_fifo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVS_RUNDIR", str(tmp_path))
    os.mkfifo(tmp_path / "ovs-vswitchd.pid")
    with pytest.raises(sending.Unreachable, match="no ovs-vswitchd runs here"):
        sending.widen("br-home")
