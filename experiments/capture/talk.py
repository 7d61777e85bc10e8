# SPDX-License-Identifier: Apache-2.0
"""Talk over MPTCP as in paper 002, section 3.3.

    python talk.py serve ADDRESS PORT    sends 4 bytes, reads 1 byte, and repeats
    python talk.py answer ADDRESS PORT   sends 1 byte for every 4 received

A line on the server's stdin is a number of exchanges; its end ends both. The paper's server sent once a second; this
one waits for both copies' acknowledgements. The kernel answers the second copy.
"""

from __future__ import annotations

import socket
import sys
import time

WORD, ANSWER = b"word", b"!"
PAUSE_S = 0.05


def serve(address: str, port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()
        print("listening", flush=True)
        peer, _ = listener.accept()
        with peer:  # the listener stays open for the second subflow
            print("connected", flush=True)
            for line in sys.stdin:
                for _ in range(int(line)):
                    peer.sendall(WORD)
                    if peer.recv(len(ANSWER)) != ANSWER:
                        sys.exit("the client is gone")
                    time.sleep(PAUSE_S)
                print("done", flush=True)


def answer(address: str, port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as server:
        server.connect((address, port))
        while server.recv(len(WORD), socket.MSG_WAITALL):
            server.sendall(ANSWER)


if __name__ == "__main__":
    role, where, number = sys.argv[1:]
    {"serve": serve, "answer": answer}[role](where, int(number))
