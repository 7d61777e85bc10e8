# SPDX-License-Identifier: Apache-2.0
"""Shaped links keep what they promise, measured with real packets."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from stalls import undisturbed
from traffic import LARGE_BUFFER, LEFT, RIGHT, LinkPair, ReceivedPackets, exchange, within_binomial

from lab.links.links import ShapedLink
from lab.links.shape import Shape
from lab.links.shaper import Shaper
from lab.processes.slow import SLOWNESS
from lab.stage.command import run
from lab.stage.stage import Stage, raised

PACED_BPS, PAYLOAD = 50_000_000 // SLOWNESS, 400  # slow enough for every packet to get a processor in time


@pytest.fixture(scope="module")
def net() -> Iterator[Stage]:
    with raised(LinkPair()) as net:
        # Packets that wait for the first ARP answer may be overtaken by those sent after it.
        net.machine("left").run("ping", "-c", "1", RIGHT)
        yield net


@pytest.fixture
def link(net: Stage) -> ShapedLink:
    link = net.uplink("pair")
    for shaper in (link.forward, link.backward):
        shaper.set(rate_bps=PACED_BPS, loss_percent=0, queue_bytes=150_000)
    return link


def to_right(net: Stage, count: int, payload: int = PAYLOAD) -> ReceivedPackets:
    return exchange(net.machine("left"), net.machine("right"), RIGHT, count, payload)


def to_left(net: Stage, count: int, payload: int = PAYLOAD) -> ReceivedPackets:
    return exchange(net.machine("right"), net.machine("left"), LEFT, count, payload)


def test_a_link_without_loss_keeps_all_packets_in_order(net: Stage, link: ShapedLink) -> None:
    assert (to_right(net, 10_000).received, to_left(net, 10_000).received) == (10_000, 10_000)


@pytest.mark.timed
def test_loss_is_within_its_binomial_interval(net: Stage, link: ShapedLink) -> None:
    link.forward.set(loss_percent=1)
    seen = to_right(net, 20_000)
    assert within_binomial(20_000 - seen.received, 20_000, 1), seen
    assert seen.in_order


def test_each_direction_loses_independently(net: Stage, link: ShapedLink) -> None:
    link.backward.set(loss_percent=20)
    assert to_right(net, 5000).received == 5000
    assert within_binomial(5000 - to_left(net, 5000).received, 5000, 20)


@pytest.mark.timed
@pytest.mark.parametrize("rate_bps", [10_000_000 // SLOWNESS, 100_000_000 // SLOWNESS])
def test_the_rate_is_within_ten_percent(net: Stage, link: ShapedLink, rate_bps: int) -> None:
    link.forward.set(rate_bps=rate_bps)
    seconds, payload = 0.7 * SLOWNESS, 1400
    seen = undisturbed(lambda: to_right(net, int(rate_bps * seconds / 8 / payload), payload))
    assert seen.wire_bps == pytest.approx(rate_bps, rel=0.1)


@pytest.mark.timed
def test_a_change_under_traffic_loses_and_reorders_nothing(net: Stage, link: ShapedLink) -> None:
    """Loss alternates between 0 and 0.001 %: three losses in a run are very unlikely. The rate changes, too."""
    changes = 0

    def change() -> None:
        nonlocal changes
        changes += 1
        link.forward.set(loss_percent=0.001 * (changes % 2), rate_bps=PACED_BPS * (10 + changes % 2) // 10)

    seen = exchange(net.machine("left"), net.machine("right"), RIGHT, 10_000, 1000, during=change)
    assert changes > 20 // SLOWNESS
    assert seen.in_order
    assert seen.received >= 10_000 - 2


@pytest.mark.timed
def test_a_queue_holds_its_configured_bytes(net: Stage, link: ShapedLink) -> None:
    """The last packet of a full queue waits for the whole queue. Packets that find it full are lost."""
    rate_bps = 10_000_000 // SLOWNESS
    link.forward.set(rate_bps=rate_bps, queue_bytes=60_000)
    seen = exchange(net.machine("left"), net.machine("right"), RIGHT, 500, 1400, buffer=LARGE_BUFFER)
    assert seen.longest_ms == pytest.approx(60_000 * 8 / rate_bps * 1000, rel=0.25)
    assert seen.received < 100


@pytest.mark.parametrize(
    "wrong",
    [
        {"loss_percent": -1},
        {"loss_percent": 101},
        {"rate_bps": 0},
        {"queue_bytes": 10},
        {"delay_ms": -1},
        {"jitter_ms": -1},
    ],
)
def test_an_impossible_shape_is_refused_and_changes_nothing(link: ShapedLink, wrong: dict[str, int]) -> None:
    before = link.forward.shape
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is {next(iter(wrong.values()))}; expected"):
        link.forward.set(**wrong)
    assert link.forward.shape == before


def test_offloads_are_off_at_both_ends(net: Stage) -> None:
    for machine in (net.machine("left"), net.machine("right")):
        told = machine.run("ethtool", "--show-offload", "link").stdout
        for name in ("rx-checksumming", "tx-checksumming", "tcp-segmentation-offload", "generic-receive-offload"):
            assert f"\n{name}: off" in told


def test_a_removed_interface_leaves_no_loss_behind() -> None:
    with plain_pair() as device:
        shaper = Shaper(run, device, Shape(loss_percent=100))
        assert carried(device, within_s=0.3) == 0
        shaper.end()
    with plain_pair() as device:
        assert carried(device, within_s=60.0) == 10


@contextmanager
def plain_pair() -> Iterator[str]:
    """Two interfaces in the world's root namespace, like a gateway's, without Open vSwitch."""
    run("ip", "link", "add", "near", "type", "veth", "peer", "name", "far")
    for name in ("near", "far"):
        run("sysctl", "--quiet", "--write", f"net.ipv6.conf.{name}.disable_ipv6=1")
        run("ip", "link", "set", name, "up")
    for name in ("near", "far"):  # until the kernel has seen the carrier, the queue drops everything
        while "state UP" not in run("ip", "link", "show", name).stdout:
            time.sleep(0.01)
    yield "near"
    run("ip", "link", "del", "near")


def carried(device: str, within_s: float) -> int:
    """Send ten frames and return how many reach the other end; return at once when all have."""
    received = Path(f"/proc/{os.getpid()}/net/dev")

    def packets() -> int:
        (line,) = [line for line in received.read_text().splitlines() if line.lstrip().startswith("far:")]
        return int(line.split()[2])

    before = packets()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as mouth:
        mouth.bind((device, 0))
        for _ in range(10):
            try:
                mouth.send(bytes(64))
            except OSError as error:  # netem tells the sender of its losses
                assert error.errno == errno.ENOBUFS
    deadline = time.monotonic() + within_s  # counters have no event to wait for
    while packets() - before < 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    return packets() - before
