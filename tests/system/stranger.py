# SPDX-License-Identifier: Apache-2.0
"""Send forged VXLAN packets to a site's host, each with an echo request of an inside terminal.

stranger.py SOURCE PORT VNI MAC COUNT FAR CLIENT SERVER     from this address and port, to FAR and the tunnel's device
"""

from __future__ import annotations

import socket
import struct
import sys

UDP_PORT = 4789
IPPROTO_ICMP, IPPROTO_UDP = 1, 17


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


def main(source: str, port: int, vni: int, mac: bytes, count: int, far: str, client: str, server: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as mouth:
        for number in range(count):
            frame = mac + bytes.fromhex("020000000099") + b"\x08\x00" + ip(client, server, IPPROTO_ICMP, echo(number))
            inside = struct.pack("!BxxxI", 8, vni << 8) + frame
            udp = struct.pack("!HHHH", port, UDP_PORT, 8 + len(inside), 0) + inside
            mouth.sendto(ip(source, far, IPPROTO_UDP, udp), (far, 0))


if __name__ == "__main__":
    address, port, vni, mac, count, *ends = sys.argv[1:]
    main(address, int(port), int(vni), bytes.fromhex(mac), int(count), *ends)
