# SPDX-License-Identifier: Apache-2.0
"""`python errors.py ADDRESS PORT STEP LONGEST TRIES EVERY_US`: paper 004's sender-only method.

Time ICMP errors for datagrams to a closed port, their lengths shuffled within each try. Writes
`length,sent_ns,returned_ns`. Linux quotes as much as fits into 576 bytes: up to there a longer datagram has a longer
error.
"""

from __future__ import annotations

import random
import select
import socket
import sys
import time

PATIENCE_S = 0.2


def main() -> None:
    address, *numbers = sys.argv[1:]
    port, step, longest, tries, every_us = map(int, numbers)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((address, port))
        print("length,sent_ns,returned_ns")
        due = time.monotonic()
        for _ in range(tries):
            lengths = list(range(step, longest + 1, step))
            random.shuffle(lengths)
            for length in lengths:
                time.sleep(max(0.0, due - time.monotonic()))
                due += every_us / 1e6
                sent = time.time_ns()
                if (heard := error_time(sock, bytes(length))) is not None:
                    print(f"{length},{sent},{heard}")


def error_time(sock: socket.socket, datagram: bytes) -> int | None:
    """Return when the error arrived; None: too late."""
    try:
        sock.send(datagram)
    except ConnectionRefusedError:
        return None  # late error of an earlier datagram
    readable, _, _ = select.select([sock], [], [], PATIENCE_S)
    heard = time.time_ns()
    if not readable:
        return None
    try:
        sock.recv(1)
    except ConnectionRefusedError:
        return heard
    return None


if __name__ == "__main__":
    main()
