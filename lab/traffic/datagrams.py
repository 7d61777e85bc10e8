# SPDX-License-Identifier: Apache-2.0
"""Send or receive numbered datagrams at an even pace.

datagrams.py receive PORT                     prints `ready`; after a line on stdin, prints one line of JSON:
                                              [[number, sent_s, received_s], ...] in the order of arrival
datagrams.py send ADDRESS PORT RATE_PPS BYTES prints `sending`; after a line on stdin, prints the number
                                              sent, and how late the latest was, in seconds
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import threading
import time

HEAD = struct.Struct("!Qd")  # number, time of sending (CLOCK_MONOTONIC, the same in all namespaces)
QUIET_S = 0.5
SO_RCVBUFFORCE = 33  # Linux; Python has no name for it
SPIN_S = 0.000_2  # spins at each pause's end: more exact than sleep()


def receive(port: int) -> None:
    seen: list[tuple[int, float, float]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
        receiver.bind(("", port))
        print("ready", flush=True)
        stopped = False
        while True:
            ready = select.select(
                [receiver] if stopped else [receiver, sys.stdin], [], [], QUIET_S if stopped else None
            )[0]
            if receiver in ready:
                seen.append((*HEAD.unpack_from(receiver.recv(2048)), time.monotonic()))
            elif ready:
                stopped = True
            else:
                break
    print(json.dumps(seen))


def send(address: str, port: int, rate_pps: int, payload_bytes: int) -> None:
    stopped = threading.Thread(target=sys.stdin.readline, daemon=True)
    stopped.start()
    filling = bytes(payload_bytes - HEAD.size)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect((address, port))
        print("sending", flush=True)
        number, late, due = 0, 0.0, time.monotonic()
        while stopped.is_alive():
            while (left := due - time.monotonic()) > 0:
                if left > SPIN_S:
                    time.sleep(left - SPIN_S)
            now = time.monotonic()
            late = max(late, now - due)
            sender.send(HEAD.pack(number, now) + filling)
            number += 1
            due = max(due, now - 1 / rate_pps) + 1 / rate_pps  # missed packets cause no burst
    print(json.dumps([number, late]))


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(int(sys.argv[2]))
    else:
        send(sys.argv[2], *map(int, sys.argv[3:]))
