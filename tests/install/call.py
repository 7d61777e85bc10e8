# SPDX-License-Identifier: Apache-2.0
"""One end of a call: numbered datagrams at an even pace in both directions.

call.py answer ADDRESS PORT    answers the latest source that it heard
call.py call ADDRESS PORT      calls

It prints `ready` at the first datagram. After a line on stdin it stops sending, and prints a line of JSON: for each
datagram that it sent the time, and for each that arrived its number. Times are CLOCK_MONOTONIC, one clock in all
namespaces.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from contextlib import suppress

EVERY_S = 1 / 50  # a packet of a G.711 call each 20 ms
PAYLOAD_BYTES = 172
QUIET_S = 3.0  # an emulated machine can hold a datagram for longer than one second
FIRST_WITHIN_S = 60.0
NUMBER = struct.Struct("!Q")


def main(verb: str, address: str, port: int) -> None:
    filling = bytes(PAYLOAD_BYTES - NUMBER.size)
    sent: list[float] = []
    arrived: list[int] = []
    calls = verb == "call"
    peer = (address, port) if calls else None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.setblocking(False)
        own.bind(("", 0) if calls else (address, port))
        began = due = time.monotonic()
        ends: float | None = None
        while ends is None or time.monotonic() < ends:
            if not arrived and time.monotonic() > began + FIRST_WITHIN_S:
                sys.exit(f"call.py: no datagram arrived in {FIRST_WITHIN_S:.0f} s")
            wait = EVERY_S if ends else max(0.0, due - time.monotonic())
            ready = select.select([own] if ends else [own, sys.stdin], [], [], wait)[0]
            if own in ready:
                try:
                    data, source = own.recvfrom(2048)
                except OSError:  # an ICMP error about an earlier datagram
                    continue
                if not arrived:
                    print("ready", flush=True)
                arrived.append(NUMBER.unpack_from(data)[0])
                peer = peer if calls else source
            elif ready:
                ends = time.monotonic() + QUIET_S
            if ends is None and time.monotonic() >= due:
                due = max(due + EVERY_S, time.monotonic() - EVERY_S)
                if peer:
                    sent.append(time.monotonic())
                    with suppress(OSError):  # without a route the datagram is lost, as on the way
                        own.sendto(NUMBER.pack(len(sent) - 1) + filling, peer)
    print(json.dumps({"sent": sent, "arrived": arrived}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
