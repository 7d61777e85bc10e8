# SPDX-License-Identifier: Apache-2.0
"""Upload over plain TCP and sample the sender's connections.

    upload.py serve ADDRESS PORT READS
    upload.py send ADDRESS PORT CONNECTIONS CONGESTION_CONTROL SAMPLES

Both end at a line on stdin or its end. For each read the server writes three doubles to READS: time.monotonic(), which
all namespaces share, the last number of the sender's address, and the bytes. The sender connects after a first line. To
SAMPLES it writes ten times a second per connection: time, srtt_us, min_rtt_us, cwnd and retransmitted segments so far.
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
# struct tcp_info (linux/tcp.h): offsets of these 32-bit numbers
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


def _read(selector: Selected, connection: socket.socket, buffer: bytearray, reads: array[float]) -> None:
    try:
        count = connection.recv_into(buffer)
        source = connection.getpeername()[0] if count else ""
    except OSError:
        count = 0
    if count:
        reads.extend((time.monotonic(), float(source.rpartition(".")[2]), float(count)))
    else:
        selector.unregister(connection)
        connection.close()


def send(selector: Selected, address: str, port: int, connections: int, congestion_control: str) -> array[float]:
    samples = array("d")
    print("ready", flush=True)
    sys.stdin.readline()
    sockets = [_connect(address, port, congestion_control) for _ in range(connections)]
    for connection in sockets:
        selector.register(connection, selectors.EVENT_WRITE)
    due = time.monotonic()
    while sys.stdin not in (ready := [key.fileobj for key, _ in selector.select(SAMPLE_EVERY_S)]):
        for each in ready:
            assert isinstance(each, socket.socket)
            each.send(BLOCK)
        if time.monotonic() >= due:
            due += SAMPLE_EVERY_S
            for connection in sockets:
                samples.extend(_sample(connection))
    return samples


def _connect(address: str, port: int, congestion_control: str) -> socket.socket:
    connection = socket.socket()
    # On the socket: the agent could not change a route's locked one.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # without sending the rest
    connection.connect((address, port))
    connection.setblocking(False)
    return connection


def _sample(connection: socket.socket) -> tuple[float, ...]:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
    numbers = (float(struct.unpack_from("I", info, at)[0]) for at in (RTT, MIN_RTT, CWND, RETRANS))
    return time.monotonic(), *numbers


def main(role: str, address: str, port: str, *rest: str) -> None:
    with Selected() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        if role == "serve":
            numbers = serve(selector, address, int(port))
        else:
            numbers = send(selector, address, int(port), int(rest[0]), rest[1])
    with Path(rest[-1]).open("wb") as file:
        numbers.tofile(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
