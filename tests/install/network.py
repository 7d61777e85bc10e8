# SPDX-License-Identifier: Apache-2.0
"""The network around the two machines, in namespaces. Lines are segments; a machine's end of one is a tap device.

             ┌ fibre ─ router-fibre ─┐
device ─ lan ─ home                  ├─ web (1.1.1.1) ─ public ─ far
             └ lte ─── router-lte ───┘
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WEB = "1.1.1.1"
FAR_ADDRESS, FAR_GATEWAY = "203.0.113.9", "203.0.113.1"
SEGMENTS = {"home-fibre": "fibre", "home-lte": "lte", "home-lan": "lan", "far-public": "public"}
PING_BYTES, CALL_BYTES = 500, 172


def _in_tunnel(payload: int) -> int:
    """Return the length of a tunnel's packet with a UDP or ICMP payload. A router knows an encrypted one by that."""
    inner = 20 + 8 + payload + 14 + 8 + 8 + 40  # Ethernet, VXLAN, UDP, IPv6
    return -(-inner // 16) * 16 + 32 + 8 + 20  # WireGuard, which pads, UDP, IPv4


LENGTHS = {"ping": _in_tunnel(PING_BYTES), "call": _in_tunnel(CALL_BYTES)}


def shell(line: str) -> str:
    done = subprocess.run(["bash", "-ec", line], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True, slots=True)
class Router:
    """A provider's router. DHCP gives its one customer an address; NAT hides it."""

    name: str
    network: str  # the first three bytes
    outside: str
    gateway: str
    masquerade: str

    def made(self, place: Path) -> None:
        own = self.inside
        counted = "\n".join(
            f'{device} meta l4proto udp meta length {length} counter comment "{kind} {way}"'
            for kind, length in LENGTHS.items()
            for way, device in (("up", "oifname out"), ("down", "iifname out"))
        )
        shell(f"""
            ip netns add {own}; ip -n {own} link set lo up
            ip link add {own} type veth peer name in netns {own}
            ip link set {own} master {self.name} up
            ip link add {own}-o type veth peer name out netns {own}
            ip link set {own}-o netns web up
            ip -n web address add {self.gateway}/24 dev {own}-o
            ip -n {own} address add {self.network}.1/24 dev in; ip -n {own} link set in up
            ip -n {own} address add {self.outside}/24 dev out; ip -n {own} link set out up
            ip -n {own} route add default via {self.gateway}
            ip netns exec {own} sysctl -qw net.ipv4.ip_forward=1
            ip netns exec {own} nft '
                table ip nat {{ chain out {{
                    type nat hook postrouting priority 100
                    oifname out {self.masquerade}
                }}; }}
                table ip counted {{ chain pass {{
                    type filter hook forward priority 0
                    {counted}
                }}; }}'
        """)

    @property
    def inside(self) -> str:
        return f"r-{self.name}"

    def serving(self, place: Path, host: int) -> subprocess.Popen[bytes]:
        """Start the DHCP server. Its only lease is for this host's number."""
        address = f"{self.network}.{host}"
        words = [
            *("setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", self.inside, "dnsmasq", "--keep-in-foreground"),
            *("--conf-file=/dev/null", "--pid-file=", "--port=0", "--interface=in", "--dhcp-authoritative"),
            *(f"--dhcp-range={address},{address},2m", "--no-ping", f"--log-facility={place / self.name}.dhcp"),
            *("--log-dhcp", f"--dhcp-leasefile={place / self.name}.{host}.leases", "--user=root"),
        ]
        return subprocess.Popen(words, stdin=subprocess.DEVNULL)

    @contextmanager
    def black(self) -> Iterator[None]:
        """Drop all packets in both directions during the block. The links stay up."""
        inside = f"ip netns exec {self.inside} nft"
        shell(f"{inside} 'table ip black {{ chain pass {{ type filter hook forward priority 0; policy drop; }}; }}'")
        try:
            yield
        finally:
            shell(f"{inside} delete table ip black")

    def carried(self) -> Counter[str]:
        """Return the pings and the call's datagrams that the tunnel through this router carried, up and down."""
        told = shell(f"ip netns exec {self.inside} nft list table ip counted")
        found = re.findall(r'packets (\d+) .* comment "(.*)"', told)
        return Counter({f"{self.name} {name}": int(count) for count, name in found})


FIBRE = Router("fibre", "192.168.178", "198.51.100.2", "198.51.100.1", "masquerade")
LTE = Router("lte", "10.64.7", "192.0.2.2", "192.0.2.1", "masquerade random")
ROUTERS = (FIBRE, LTE)
FIRST_HOST, SECOND_HOST = 20, 30


def carried() -> Counter[str]:
    return FIBRE.carried() + LTE.carried()


class Network:
    def __init__(self, place: Path) -> None:
        self._place = place
        self._servers: dict[str, subprocess.Popen[Any]] = {}

    def make(self) -> None:
        for tap, segment in SEGMENTS.items():
            shell(f"ip link add {segment} type bridge && ip link set {segment} up")
            shell(f"ip tuntap add {tap} mode tap && ip link set {tap} master {segment} up")
        shell(f"""
            ip netns add web; ip -n web link set lo up; ip -n web address add {WEB}/32 dev lo
            ip link add web type veth peer name public netns web; ip link set web master public up
            ip -n web address add {FAR_GATEWAY}/24 dev public; ip -n web link set public up
            ip netns exec web sysctl -qw net.ipv4.ip_forward=1
            ip netns add device; ip -n device link set lo up
            ip link add device type veth peer name eth0 netns device; ip link set device master lan up
        """)
        for each in ROUTERS:
            each.made(self._place)
            self.serve(each, FIRST_HOST)

    def serve(self, router: Router, host: int) -> None:
        """Give home another address at its next request."""
        self._end(router.name)
        self._servers[router.name] = router.serving(self._place, host)

    def _end(self, name: str) -> None:
        server = self._servers.pop(name, None)
        if server:
            server.kill()
            server.wait()

    def end(self) -> None:
        for name in list(self._servers):
            self._end(name)


@contextmanager
def network(place: Path) -> Iterator[Network]:
    made = Network(place)
    try:
        made.make()
        yield made
    finally:
        made.end()
