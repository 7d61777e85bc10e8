# SPDX-License-Identifier: Apache-2.0
"""Emulated links keep what they promise, measured with real packets."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest
from stalls import undisturbed
from traffic import LARGE_BUFFER, LEFT, RIGHT, LinkPair, ReceivedPackets, exchange, within_binomial

from lab.links.emulator import STALL_MS, Counters
from lab.links.links import ShapedLink
from lab.links.shape import Shape
from lab.stage.stage import Stage, raised
from tests.system.evidence import until

DELAY_MS = 10.0
RATE_BPS = 20_000_000
PLAIN = Shape(RATE_BPS, delay_ms=DELAY_MS, queue_bytes=400_000)
PAYLOAD, PAYLOAD_BPS = 400, 8_000_000  # well below the rate


@pytest.fixture(scope="module")
def net() -> Iterator[Stage]:
    with raised(LinkPair(forward=PLAIN, backward=PLAIN)) as net:
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


@pytest.mark.timed
def test_packets_are_delayed_in_order_without_loss(net: Stage, link: ShapedLink) -> None:
    for seen in (to_right(net, 2000), to_left(net, 2000)):
        assert (seen.received, seen.in_order) == (2000, True)
        assert DELAY_MS <= seen.shortest_ms < DELAY_MS + 5


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
    until(lambda: all(map(all_told, link.counters())), "an ARP packet may be in flight")


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
