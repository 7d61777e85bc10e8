# SPDX-License-Identifier: Apache-2.0
"""Uploads over plain TCP whose sender tells how its connections fare: the program at both of its ends.

    upload.py serve ADDRESS PORT READS
    upload.py send ADDRESS PORT CONNECTIONS CONGESTION_CONTROL SAMPLES

Both say `ready`, and end when a line comes on stdin, or its end. Who serves leaves in READS for each read the moment
(time.monotonic(), which all namespaces share), the number in which the sender's address ends, and the bytes, as
doubles. Who sends connects when it has said `ready` and a first line has come. It leaves in SAMPLES, ten times a second
for each connection, the moment, srtt_us, min_rtt_us, cwnd and the segments sent again since its beginning.
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys
import time
from array import array
from pathlib import Path

READ_BYTES = 1 << 18
SAMPLE_EVERY_S = 0.1
BLOCK = bytes(1 << 16)
# struct tcp_info of linux/tcp.h: where these 32-bit numbers begin
RTT, CWND, RETRANS, MIN_RTT, INFO_BYTES = 68, 80, 100, 148, 152
Selected = selectors.DefaultSelector


def serve(selector: Selected, address: str, port: int) -> array[float]:
    reads = array("d")
    buffer = bytearray(READ_BYTES)
    with socket.create_server((address, port), backlog=64) as listener:
        selector.register(listener, selectors.EVENT_READ)
        print("ready", flush=True)
        while sys.stdin not in (ready := [key.fileobj for key, _ in selector.select()]):
            for each in ready:
                if each is listener:
                    selector.register(listener.accept()[0], selectors.EVENT_READ)
                elif isinstance(each, socket.socket):
                    _read(selector, each, buffer, reads)
    return reads


def _read(selector: Selected, line: socket.socket, buffer: bytearray, reads: array[float]) -> None:
    try:
        count = line.recv_into(buffer)
        source = line.getpeername()[0] if count else ""
    except OSError:
        count = 0
    if count:
        reads.extend((time.monotonic(), float(source.rpartition(".")[2]), float(count)))
    else:
        selector.unregister(line)
        line.close()


def send(selector: Selected, address: str, port: int, connections: int, congestion_control: str) -> array[float]:
    samples = array("d")
    print("ready", flush=True)
    sys.stdin.readline()
    lines = [_connected(address, port, congestion_control) for _ in range(connections)]
    for line in lines:
        selector.register(line, selectors.EVENT_WRITE)
    due = time.monotonic()
    while sys.stdin not in (ready := [key.fileobj for key, _ in selector.select(SAMPLE_EVERY_S)]):
        for each in ready:
            assert isinstance(each, socket.socket)
            each.send(BLOCK)
        if time.monotonic() >= due:
            due += SAMPLE_EVERY_S
            for line in lines:
                samples.extend(_sample(line))
    return samples


def _connected(address: str, port: int, congestion_control: str) -> socket.socket:
    line = socket.socket()
    # By the socket and not by a route: what a route locks nobody may change, also not who holds its window.
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # nothing is sent when it is over
    line.connect((address, port))
    line.setblocking(False)
    return line


def _sample(line: socket.socket) -> tuple[float, ...]:
    told = line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
    numbers = (float(struct.unpack_from("I", told, at)[0]) for at in (RTT, MIN_RTT, CWND, RETRANS))
    return time.monotonic(), *numbers


def main(role: str, address: str, port: str, *rest: str) -> None:
    with Selected() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        if role == "serve":
            told = serve(selector, address, int(port))
        else:
            told = send(selector, address, int(port), int(rest[0]), rest[1])
    with Path(rest[-1]).open("wb") as file:
        told.tofile(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
