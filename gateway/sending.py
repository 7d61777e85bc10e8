# SPDX-License-Identifier: Apache-2.0
"""The send buffer of ovs-vswitchd's socket for all ports of its userspace datapath.

    python -P gateway/sending.py BRIDGE     enlarges it, in the Open vSwitch that OVS_RUNDIR names

Linux charges a packet to its socket while the packet waits in a port's queue. The default buffer
(`net.core.wmem_default`, 208 KiB) holds some ninety packets. When they wait for a slow uplink, Linux drops packets for
the others. The kernel datapath has no such limit. So the buffer must exceed all queues together.

A new default would affect all sockets of the machine, and only later ones. Open vSwitch creates this one at its first
packet.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMMAND = (sys.executable, "-P", __file__)
ROOM_BYTES = 256 << 20  # eight uplinks, each with a full fq_codel queue (32 MiB)
DAEMON = "ovs-vswitchd"
PIDFD_GETFD = 438  # pidfd_getfd(2), the same on Debian's and Ubuntu's architectures
SO_SNDBUFFORCE = 32
ANSWERS_WITHIN_S = 10
FAILED = "the send buffer is not enlarged"
# No receivers: a group address that bridges drop (IEEE 802.1Q, 8.6.3), and the local experimental EtherType (IEEE 802,
# 9.2).
UNHEARD = "0180c200000e02000000000188b5" + 46 * "00"


class Unreachable(Exception):
    """The socket does not exist or is not accessible. The sentence says which."""


def room() -> int | None:
    """Return the buffer size in bytes, or None if the socket does not exist or is not accessible."""
    try:
        with _sockets(_daemon()) as those:
            return min((_room(each) for each in those), default=None)
    except Unreachable:
        return None


def widen(bridge: str) -> None:
    """Enlarge the send buffer. First the daemon sends through this bridge, which creates the socket."""
    pid = _daemon()
    with _sockets(pid) as those:
        found = bool(those)
    if not found:
        _have_it_send(bridge)
    with _sockets(pid) as those:
        if not those:
            raise Unreachable(f"{DAEMON} has sent nothing yet: no port of {bridge} is open; repeat this once one is")
        try:
            for each in those:
                # The kernel doubles the given value.
                each.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, ROOM_BYTES // 2)
        except OSError as error:
            raise Unreachable(f"{DAEMON}'s send buffer cannot be enlarged: {error.strerror}; run it as root") from None


def _room(sending: socket.socket) -> int:
    return sending.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def _daemon() -> int:
    pidfile = Path(os.environ.get("OVS_RUNDIR", "/var/run/openvswitch"), f"{DAEMON}.pid")
    try:
        if not pidfile.is_file():
            raise ValueError
        pid = int(pidfile.read_text())
        running = Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, ValueError):
        raise Unreachable(f"{pidfile}: no {DAEMON} runs here") from None
    if running != DAEMON:
        raise Unreachable(f"{pidfile}: process {pid} is {running}, expected {DAEMON}")
    return pid


@contextmanager
def _sockets(pid: int) -> Iterator[list[socket.socket]]:
    """Duplicate ovs-vswitchd's sending sockets for the block."""
    held: list[socket.socket] = []
    try:
        process = os.pidfd_open(pid)
    except OSError as error:
        raise Unreachable(f"{DAEMON}: {error.strerror}") from None
    try:
        for number in _numbers(pid):
            held.append(socket.socket(fileno=_taken(process, number)))
        yield held
    finally:
        os.close(process)
        for each in held:
            each.close()


def _numbers(pid: int) -> Iterator[int]:
    """Return its packet sockets that receive nothing. Those that receive are bound to a port each."""
    try:
        lines = Path(f"/proc/{pid}/net/packet").read_text().splitlines()[1:]
        sending = {f"socket:[{line.split()[8]}]" for line in lines if line.split()[3:5] == ["0000", "0"]}
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(entry.readlink())
            except FileNotFoundError:
                continue  # closed in the meantime
            if target in sending:
                yield int(entry.name)
    except OSError as error:
        raise Unreachable(f"{DAEMON}: {error.filename}: {error.strerror}") from None


def _taken(process: int, number: int) -> int:
    taken = _libc().syscall(PIDFD_GETFD, process, number, 0)
    if taken < 0:
        raise Unreachable(f"{DAEMON}'s socket is out of reach (pidfd_getfd: {os.strerror(ctypes.get_errno())})")
    return int(taken)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _have_it_send(bridge: str) -> None:
    """Send one frame over each port of the bridge, so that the socket exists. Delivery does not matter."""
    words = ("ovs-ofctl", f"--timeout={ANSWERS_WITHIN_S}", "-O", "OpenFlow13", "packet-out", bridge)
    try:
        done = subprocess.run(
            [*words, f"in_port=controller packet={UNHEARD} actions=all"], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise Unreachable(f"{words[0]} cannot be run: {error.strerror}; install openvswitch-switch") from None
    if done.returncode != 0:
        raise Unreachable(f"`{' '.join(words)}` was refused: {done.stderr.strip()}")


if __name__ == "__main__":
    try:
        widen(sys.argv[1])
    except Unreachable as error:
        # Exit with 0: no other step depends on it.
        print(f"{FAILED}: {error}", file=sys.stderr)
