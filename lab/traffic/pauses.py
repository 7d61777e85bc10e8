# SPDX-License-Identifier: Apache-2.0
"""Download by HTTP and measure the pauses.

pauses.py URL [tcp|mptcp]       prints `flowing` after the first megabyte, and at the end one line of JSON
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys
import time
from urllib.parse import urlsplit

IPPROTO_MPTCP = 262
FLOWING_BYTES = 1_000_000


def download(url: str, protocol: int) -> dict[str, object]:
    parts = urlsplit(url)
    assert parts.hostname
    family = socket.AF_INET6 if ":" in parts.hostname else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM, protocol) as connection:
        connection.connect((parts.hostname, parts.port or 80))
        connection.sendall(f"GET {parts.path} HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            part = connection.recv(65536)
            assert part, f"ended in its head: {head!r}"
            head += part
        status, _, body = head.partition(b"\r\n\r\n")
        assert b" 200 " in status.splitlines()[0], status.decode()
        digest = hashlib.sha256(body)
        size, longest, longest_at, announced = len(body), 0.0, 0.0, False
        started = last = time.monotonic()
        while part := connection.recv(1 << 18):
            now = time.monotonic()
            if now - last > longest:
                longest, longest_at = now - last, time.time()
            digest.update(part)
            size += len(part)
            # Hashing is no pause.
            last = time.monotonic()
            if size >= FLOWING_BYTES and not announced:
                announced = True
                print("flowing", flush=True)
    seconds = time.monotonic() - started
    return {
        "bytes": size,
        "sha256": digest.hexdigest(),
        "seconds": seconds,
        "longest_pause_s": longest,
        "longest_pause_ended_at": longest_at,
    }


if __name__ == "__main__":
    print(json.dumps(download(sys.argv[1], IPPROTO_MPTCP if "mptcp" in sys.argv[2:] else 0)))
