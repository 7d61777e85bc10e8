# SPDX-License-Identifier: Apache-2.0
"""Numbered and timestamped UDP datagrams: the programs at either end of a link under test.

datagrams.py receive        prints `ready`, counts, prints JSON
    A line on its input is the number sent. It ends when that many have come, or after a quiet time.
datagrams.py send ADDRESS COUNT PAYLOAD_BYTES BUFFER_BYTES PAYLOAD_BPS     0: as fast as it goes
"""

from __future__ import annotations

import json
import math
import select
import socket
import struct
import sys
import time
from itertools import pairwise

PORT = 7000
QUIET_S = 2.5  # longer than any queue here, and than a stall of the machine
HEAD = struct.Struct("!Id")  # number, seconds
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33  # Linux; Python does not name them


def receive() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        ear.bind(("", PORT))
        print("ready", flush=True)
        numbers: list[int] = []
        first = last = longest = 0.0
        shortest = math.inf
        sent_in_all: int | None = None  # None while the sender sends
        while sent_in_all is None or len(numbers) < sent_in_all:
            ended = sent_in_all is not None
            ready = select.select([ear] if ended else [ear, sys.stdin], [], [], QUIET_S if ended else None)[0]
            if ear in ready:
                last = time.monotonic()
                number, sent = HEAD.unpack_from(ear.recv(2000))
                first = first or last
                longest, shortest = max(longest, last - sent), min(shortest, last - sent)
                numbers.append(number)
            elif ready:
                sent_in_all = int(sys.stdin.readline())
            else:
                break
    steps = [after - before for before, after in pairwise(numbers)]
    told = {
        "received": len(numbers),
        "in_order": all(step > 0 for step in steps),
        "seconds": last - first,
        "longest_s": longest,
        "shortest_s": shortest if numbers else 0.0,
        "gaps": [step - 1 for step in steps if step > 1],
    }
    print(json.dumps(told))


def send(address: str, count: int, payload: int, buffer: int, rate_bps: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mouth:
        mouth.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, buffer)
        mouth.connect((address, PORT))
        begin = time.monotonic()
        for number in range(count):
            if rate_bps:
                time.sleep(max(0.0, begin + number * payload * 8 / rate_bps - time.monotonic()))
            mouth.send(HEAD.pack(number, time.monotonic()).ljust(payload, b"\0"))


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive()
    else:
        send(sys.argv[2], *(int(word) for word in sys.argv[3:]))
