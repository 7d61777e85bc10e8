"""A real Open vSwitch takes a program with relaying whole, and leads packets as the one that executes it here does."""

from __future__ import annotations

from pathlib import Path

from controller.model.relaying import HOST_MAC
from controller.program.compile import compile
from tests.controller import relayed_site
from tests.controller.relayed_site import PORTS
from tests.fakes.packet import tcp, udp
from tests.fakes.real_switch import RealSwitch

PHONE, PHONE6, SERVER, SERVER6 = "10.1.0.7", "fd00:1::7", "198.51.100.7", "2001:db8::7"
BETWEEN = [
    ("lan0", tcp(PHONE, SERVER, eth_dst=PORTS["lan0"].mac)),
    ("lan0", tcp(PHONE6, SERVER6, eth_dst=PORTS["lan0"].mac)),
    ("lan0", udp(PHONE, SERVER, eth_dst=PORTS["lan0"].mac)),
    ("lan0", tcp(PHONE, "203.0.113.9", eth_dst=PORTS["lan0"].mac)),
    ("rl-home", tcp(SERVER, PHONE)),
    ("rl-home", tcp(PHONE, SERVER)),
    ("rl-home", udp(PHONE, SERVER)),
    ("rl-wifi", tcp("10.97.1.7", SERVER, eth_src=HOST_MAC, eth_dst=PORTS["rl-wifi"].mac)),
    ("rl-wifi", tcp("10.97.1.7", SERVER, eth_dst=PORTS["rl-wifi"].mac)),
    ("rl-wifi", tcp(PHONE, SERVER, eth_dst=PORTS["rl-wifi"].mac)),
    ("lte0", tcp(SERVER, "10.97.2.7", eth_dst=PORTS["lte0"].mac)),
]


def test_a_program_with_relaying_is_taken_whole_and_means_the_same_there(tmp_path: Path) -> None:
    site = relayed_site.site()
    program = compile(site, relayed_site.known(site))
    fake = relayed_site.switch_with(site, relayed_site.known(site))
    with RealSwitch(tmp_path, tuple(port.number for port in PORTS.values()), ()) as real:
        real.load(program)
        assert real.held() == (len(program.flows), set(program.groups))
        for port, packet in BETWEEN:
            number = PORTS[port].number
            led = real.send(packet, number)
            assert set(led.sent) == set(fake.send(packet, number).sent), f"{packet} by {port}"
