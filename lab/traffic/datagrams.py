# SPDX-License-Identifier: Apache-2.0
"""Numbered datagrams at an even pace, counted at both ends: the programs at either end.

datagrams.py receive PORT                     prints `ready`, until a line comes in; then one line of JSON:
                                              [[number, sent_s, received_s], ...] in the order of arrival
datagrams.py send ADDRESS PORT RATE_PPS BYTES prints `sending`, until a line comes in; then how many, and the
                                              longest that one was late, in seconds
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import threading
import time

HEAD = struct.Struct("!Qd")  # number, moment of sending (CLOCK_MONOTONIC: one machine, one clock)
QUIET_S = 0.5
SO_RCVBUFFORCE = 33  # Linux; Python does not name it
SPIN_S = 0.000_2  # the last of a pause is waited for awake


def receive(port: int) -> None:
    seen: list[tuple[int, float, float]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
        ear.bind(("", port))
        print("ready", flush=True)
        told = False
        while True:
            ready = select.select([ear] if told else [ear, sys.stdin], [], [], QUIET_S if told else None)[0]
            if ear in ready:
                seen.append((*HEAD.unpack_from(ear.recv(2048)), time.monotonic()))
            elif ready:
                told = True
            else:
                break
    print(json.dumps(seen))


def send(address: str, port: int, rate_pps: int, payload_bytes: int) -> None:
    told = threading.Thread(target=sys.stdin.readline, daemon=True)
    told.start()
    filling = bytes(payload_bytes - HEAD.size)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mouth:
        mouth.connect((address, port))
        print("sending", flush=True)
        number, late, due = 0, 0.0, time.monotonic()
        while told.is_alive():
            while (left := due - time.monotonic()) > 0:
                if left > SPIN_S:
                    time.sleep(left - SPIN_S)
            now = time.monotonic()
            late = max(late, now - due)
            mouth.send(HEAD.pack(number, now) + filling)
            number += 1
            due = max(due, now - 1 / rate_pps) + 1 / rate_pps  # what was missed is not made up for by a burst
    print(json.dumps([number, late]))


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(int(sys.argv[2]))
    else:
        send(sys.argv[2], *map(int, sys.argv[3:]))
