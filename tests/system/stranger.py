# SPDX-License-Identifier: Apache-2.0
"""Send forged VXLAN packets to a site's host, each with an echo request of an inside terminal.

stranger.py VNI MAC COUNT CLIENT SERVER ADDRESS:PORT...     for the tunnel's device of this number and address
"""

from __future__ import annotations

import socket
import struct
import sys

IPPROTO_ICMP = 1


def summed(content: bytes) -> int:
    """Return the checksum of RFC 1071."""
    total = sum(struct.unpack(f"!{len(content) // 2}H", content))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ip(source: str, target: str, protocol: int, content: bytes) -> bytes:
    def header(check: int) -> bytes:
        words = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(content), 1, 0, 64, protocol, check)
        return words + socket.inet_aton(source) + socket.inet_aton(target)

    return header(summed(header(0))) + content


def echo(number: int) -> bytes:
    def message(check: int) -> bytes:
        return struct.pack("!BBHHH", 8, 0, check, 77, number) + bytes(40)

    return message(summed(message(0)))


def main(vni: int, mac: bytes, count: int, client: str, server: str, *targets: str) -> None:
    for target in targets:
        host, _, port = target.rpartition(":")
        ((family, _, _, _, to), *_) = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        with socket.socket(family, socket.SOCK_DGRAM) as mouth:
            for number in range(count):
                packet = ip(client, server, IPPROTO_ICMP, echo(number))
                frame = mac + bytes.fromhex("020000000099") + b"\x08\x00" + packet
                mouth.sendto(struct.pack("!BxxxI", 8, vni << 8) + frame, to)


if __name__ == "__main__":
    vni, mac, count, *others = sys.argv[1:]
    main(int(vni), bytes.fromhex(mac), int(count), *others)
