# SPDX-License-Identifier: Apache-2.0
"""Emulated links keep what they promise, measured with real packets."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest
from mininet.topo import Topo
from stalls import undisturbed
from traffic import LARGE_BUFFER, ReceivedPackets, exchange

from lab.links.emulator import STALL_MS, Counters
from lab.links.links import ShapedLink
from lab.links.shape import Bursts, Shape
from lab.stage.command import CommandFailed
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised

LEFT, RIGHT = "10.0.0.1", "10.0.0.2"
DELAY_MS = 10.0
RATE_BPS = 20_000_000
PLAIN = Shape(RATE_BPS, delay_ms=DELAY_MS, queue_bytes=400_000)
PAYLOAD, PAYLOAD_BPS = 400, 8_000_000  # well below the rate
SIGMAS = 4.5  # one false alarm in 150,000
SOON_S = 60.0


class EmulatedPair(Topo):  # type: ignore[misc]  # Mininet is untyped
    """left ── emulated ── right ── plain ── beside"""

    def build(self) -> None:
        self.addHost("left", cls=Machine, addresses={"link": [f"{LEFT}/24"]})
        self.addHost("right", cls=Machine, addresses={"link": [f"{RIGHT}/24"]})
        self.addHost("beside", cls=Machine)
        names = {"intfName1": "link", "intfName2": "link"}
        self.addLink("left", "right", cls=ShapedLink, label="pair", forward=PLAIN, backward=PLAIN, **names)
        self.addLink("right", "beside", cls=ShapedLink, label="plain", intfName1="beside", intfName2="link")


@pytest.fixture(scope="module")
def net() -> Iterator[Stage]:
    with raised(EmulatedPair()) as net:
        net.machine("left").run("ping", "-c", "1", RIGHT)
        yield net


@pytest.fixture
def link(net: Stage) -> ShapedLink:
    link = net.uplink("pair")
    for way in (link.forward, link.backward):
        way.set(loss_percent=0, queue_bytes=400_000, delay_ms=DELAY_MS, jitter_ms=0)
        way.set(rate_bps=RATE_BPS, bursts=None, others=0)
    return link


def to_right(net: Stage, count: int, payload: int = PAYLOAD, payload_bps: int = PAYLOAD_BPS) -> ReceivedPackets:
    return exchange(net.machine("left"), net.machine("right"), RIGHT, count, payload, LARGE_BUFFER, None, payload_bps)


def to_left(net: Stage, count: int) -> ReceivedPackets:
    return exchange(net.machine("right"), net.machine("left"), LEFT, count, PAYLOAD, LARGE_BUFFER, None, PAYLOAD_BPS)


def within_binomial(lost: int, count: int, percent: float) -> bool:
    expected = count * percent / 100
    return abs(lost - expected) <= SIGMAS * math.sqrt(expected * (1 - percent / 100)) + 1


@pytest.mark.timed
def test_packets_are_delayed_in_order_without_loss(net: Stage, link: ShapedLink) -> None:
    for seen in (to_right(net, 2000), to_left(net, 2000)):
        assert (seen.received, seen.in_order) == (2000, True)
        assert DELAY_MS <= seen.shortest_ms < DELAY_MS + 5


@pytest.mark.timed
@pytest.mark.parametrize("rate_bps", [2_000_000, 200_000_000])
def test_the_rate_is_within_ten_percent(net: Stage, link: ShapedLink, rate_bps: int) -> None:
    link.forward.set(rate_bps=rate_bps, queue_bytes=rate_bps // 8)
    seen = undisturbed(lambda: to_right(net, int(rate_bps * 0.7 / 8 / 1400), 1400, payload_bps=0))
    assert seen.wire_bps == pytest.approx(rate_bps, rel=0.1)


@pytest.mark.timed
def test_traffic_of_others_reduces_our_rate(net: Stage, link: ShapedLink) -> None:
    """Packets that arrive faster than the remaining rate leave at that rate."""
    link.forward.set(others=0.5, queue_bytes=4_000_000)
    seen = undisturbed(lambda: to_right(net, 1500, 1400, payload_bps=17_000_000))
    assert seen.received == 1500
    assert seen.wire_bps == pytest.approx(RATE_BPS * 17 / 27, rel=0.1), "each leaves as it came, by turns"


@pytest.mark.timed
def test_each_direction_loses_and_counts_separately(net: Stage, link: ShapedLink) -> None:
    before = link.counters()
    link.backward.set(loss_percent=20)
    assert to_right(net, 2000).received == 2000
    lost = 2000 - to_left(net, 2000).received
    assert within_binomial(lost, 2000, 20)
    forward, backward = link.counters()
    assert forward.lost_packets == before[0].lost_packets
    assert (
        lost <= backward.lost_packets - before[1].lost_packets <= lost + 10
    )  # the machines send packets of their own, too


def test_every_packet_is_accounted_for(net: Stage, link: ShapedLink) -> None:
    link.forward.set(loss_percent=10, rate_bps=5_000_000, queue_bytes=30_000)
    to_right(net, 2000)
    deadline = time.monotonic() + SOON_S
    while not all(all_told(seen) for seen in link.counters()):  # an ARP packet may be in flight
        assert time.monotonic() < deadline, link.counters()


def all_told(seen: Counters) -> bool:
    return seen.in_packets == seen.out_packets + seen.lost_packets + seen.dropped_packets


@pytest.mark.parametrize(("cut", "whole"), [("left", "right"), ("right", "left")])
def test_an_interface_that_is_down_is_cut_off(net: Stage, link: ShapedLink, cut: str, whole: str) -> None:
    net.machine(cut).run("ip", "link", "set", "dev", "link", "down")
    assert "LOWER_UP" in net.machine(whole).run("ip", "link", "show", "link").stdout
    ping = ["ping", "-c", "2", "-i", "0.1", LEFT if whole == "right" else RIGHT]
    assert "0 received" in net.machine(whole).run(*ping, "-W", "1", check=False).stdout
    net.machine(cut).run("ip", "link", "set", "dev", "link", "up")
    assert "2 received" in net.machine(whole).run(*ping, "-W", "60").stdout


def test_a_vlan_tag_stays_on_its_frame(net: Stage, link: ShapedLink) -> None:
    """The kernel removes the 802.1Q tag from a frame before a socket receives it."""
    frame = "ffffffffffff" + "020000000001" + "81000007" + "88b5" + "74616767" * 12
    receive = (
        "import socket; ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3));"
        "ear.setsockopt(263, 8, 1); ear.bind(('link', 3)); print('ready', flush=True);"
        "[print(data.hex()[24:28], told[0][2][16:20].hex(), flush=True) for data, told, *_ in"
        " iter(lambda: ear.recvmsg(2000, 100), None) if data.hex().endswith('74616767' * 12)]"
    )
    send = f"import socket; socket.socket(17, 3).__class__(17, 3).sendto(bytes.fromhex('{frame}'), ('link', 0))"
    with net.machine("right").popen([sys.executable, "-c", receive], text=True) as ear:
        assert ear.stdout is not None
        assert ear.stdout.readline() == "ready\n"
        net.machine("left").run(sys.executable, "-c", send)
        told = ear.stdout.readline()
        ear.kill()
    assert told == "88b5 07000081\n"  # the frame without its tag; tag 7 and kind 0x8100 beside it


def test_reading_the_lateness_resets_it(net: Stage, link: ShapedLink) -> None:
    link.lateness()
    to_right(net, 500)
    told = link.lateness()
    assert told.packets >= 500
    assert 0 <= told.p50_us <= told.p99_us <= told.max_us
    assert link.lateness().packets < 100


def test_a_stall_of_the_emulator_is_reported(net: Stage, link: ShapedLink) -> None:
    """The packet arrives while the emulator does not run. The kernel's timestamp shows the delay."""
    link.lateness()
    emulator = link._carrier().pid
    os.kill(emulator, signal.SIGSTOP)
    net.machine("left").run("ping", "-c", "1", "-W", "0.2", RIGHT, check=False)
    os.kill(emulator, signal.SIGCONT)
    told = link.lateness()
    while not told.packets:
        told = link.lateness()
    assert told.stalled
    assert told.max_us >= 150_000
    assert f"packets left more than {STALL_MS} ms late, the latest by {told.max_us / 1000:.1f} ms" in str(told)


@pytest.mark.parametrize("wrong", [{"delay_ms": -1}, {"jitter_ms": -1}])
def test_an_impossible_shape_is_refused_and_changes_nothing(link: ShapedLink, wrong: dict[str, int]) -> None:
    before = link.forward.shape
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is -1; expected"):
        link.forward.set(**wrong)
    assert link.forward.shape == before


@pytest.mark.parametrize("wrong", [{"p": 0.0}, {"r": 2.0}, {"bad_loss_percent": 101.0}, {"good_loss_percent": -1.0}])
def test_impossible_bursts_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is"):
        Bursts(**({"p": 0.1, "r": 0.5} | wrong))


def test_the_emulator_refuses_unknown_orders(link: ShapedLink) -> None:
    emulator = link._carrier()
    for order, told in {
        "dance": "expected open, set",
        "set sideways rate_bps=1": "expected forward or backward",
        "set forward rate_bps": "is not NAME=VALUE",
        "set forward rate_bps=1e6": "whole number",
        "set forward delay_us=-1": "whole number",
        "set forward loss=nan": "from 0 to 1",
    }.items():
        with pytest.raises(CommandFailed, match=told):
            emulator.tell(order)
    assert link.forward.shape == PLAIN


def test_a_kernel_link_refuses_features_of_the_emulator(net: Stage) -> None:
    plain = net.uplink("plain")
    with pytest.raises(ValueError, match="beside is shaped by the kernel; delay, jitter and bursts need"):
        plain.forward.set(delay_ms=1)
    with pytest.raises(TypeError, match="link plain: the kernel shapes it"):
        plain.lateness()
