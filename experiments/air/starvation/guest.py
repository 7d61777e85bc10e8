# SPDX-License-Identifier: Apache-2.0
"""Traffic of a host.

    guest.py datagrams ADDRESS PORT BPS          UDP that answers nothing, until a line comes on stdin
    guest.py bursts ADDRESS PORT ON_S OFF_S [CC] TCP that sends for ON_S, rests for OFF_S, and so on

Both begin at a line on stdin, and end at the second or its end.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
import time
from collections.abc import Callable

DATAGRAM = bytes(1400)
HEADER_BYTES = 42  # Ethernet, IPv4 and UDP
BLOCK = bytes(1 << 16)
TURN_S = 0.005


def datagrams(address: str, port: int, bps: str) -> Callable[[float], None]:
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sent = 0

    def turn(since_s: float) -> None:
        nonlocal sent
        while sent * (len(DATAGRAM) + HEADER_BYTES) * 8 < float(bps) * since_s:
            line.sendto(DATAGRAM, (address, port))
            sent += 1

    return turn


def bursts(address: str, port: int, on_s: str, off_s: str, control: str = "cubic") -> Callable[[float], None]:
    line = socket.socket()
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.connect((address, port))
    line.setblocking(False)

    def turn(since_s: float) -> None:
        while since_s % (float(on_s) + float(off_s)) < float(on_s):
            try:
                line.send(BLOCK)
            except BlockingIOError:
                return

    return turn


KINDS: dict[str, Callable[..., Callable[[float], None]]] = {"datagrams": datagrams, "bursts": bursts}


def main(kind: str, address: str, port: str, *rest: str) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    turn = KINDS[kind](address, int(port), *rest)
    began = time.monotonic()
    while not select.select([sys.stdin], [], [], TURN_S)[0]:
        turn(time.monotonic() - began)


if __name__ == "__main__":
    main(*sys.argv[1:])
