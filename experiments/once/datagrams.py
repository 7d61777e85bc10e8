# SPDX-License-Identifier: Apache-2.0
"""Datagrams and pings over lossy or cut paths."""

from __future__ import annotations

import re
import subprocess
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from experiments.laboratories.two_sites import CLIENT, Laboratory
from experiments.once.plan import Losses, Scenario
from lab.stage.failure import ExperimentFailed
from lab.traffic.numbered import PAYLOAD_BYTES, Counted, Numbered, numbered
from lab.traffic.streaming import till
from topologies.paper import SERVER

RATE_PPS, BYTES = 250, 1000  # 2 Mbit/s
THIN_PPS = 50  # during cuts
CUT_S = 2.0  # of each cut, and between cuts
UP, DOWN = "up", "down"


@dataclass(frozen=True, slots=True)
class DatagramRun:
    mode: str
    losses: Losses
    ways: Mapping[str, Counted]  # up and down
    stalled: str

    def __str__(self) -> str:
        return f"2 Mbit/s each way, {self.losses}, {self.mode}: {_summary(self.ways)}"


@dataclass(frozen=True, slots=True)
class CutRun:
    mode: str
    moments: Sequence[float]  # time.monotonic() of cuts
    ways: Mapping[str, Counted]
    stalled: str

    def __str__(self) -> str:
        return f"{THIN_PPS} datagrams/s each way, {len(self.moments)} cuts, {self.mode}: {_summary(self.ways)}"

    def lost(self, way: str) -> list[int]:
        """Return losses from each cut to the next; earlier losses count with the first."""
        counted, each = self.ways[way], [0] * len(self.moments)
        came = sorted(counted.copies)
        for number in counted.lost:
            each[max(0, bisect_right(self.moments, _sent_at(number, came, counted.sent_at)) - 1)] += 1
        return each


@dataclass(slots=True)
class BothWays:
    """Two streams' results, after their end."""

    ways: dict[str, Counted] = field(default_factory=dict)


def run_datagrams(lab: Laboratory, mode: str, losses: Losses, seconds: float) -> DatagramRun:
    lab.lose(wifi=losses.wifi_percent, lte=losses.lte_percent)
    lab.stalled()  # forget earlier stalls
    with both_ways(lab, RATE_PPS, BYTES) as both:
        till(time.monotonic() + seconds)
    stalled = lab.stalled()
    lab.lose(wifi=0, lte=0)
    return DatagramRun(mode, losses, both.ways, stalled)


def run_cuts(lab: Laboratory, mode: str, cuts: int) -> CutRun:
    lab.stalled()  # forget earlier stalls
    with both_ways(lab, THIN_PPS) as both:
        moments = list(cut_repeatedly(lab, cuts))
    return CutRun(mode, moments, both.ways, lab.stalled())


def cut_repeatedly(lab: Laboratory, cuts: int) -> Iterator[float]:
    """Yield each cut's time. Wi-Fi is whole before, between and after."""
    began = time.monotonic()
    for number in range(cuts):
        till(began + (2 * number + 1) * CUT_S)
        moment = time.monotonic()
        lab.lose(wifi=100)
        till(began + (2 * number + 2) * CUT_S)
        lab.lose(wifi=0)
        yield moment
    till(began + (2 * cuts + 1) * CUT_S)


@contextmanager
def both_ways(lab: Laboratory, rate_pps: int, payload_bytes: int = PAYLOAD_BYTES) -> Iterator[BothWays]:
    """Run a stream each way; the results are known after the block."""
    both = BothWays()
    with (
        numbered(lab.client, lab.server, SERVER, rate_pps, payload_bytes) as up,
        numbered(lab.server, lab.client, CLIENT, rate_pps, payload_bytes) as down,
    ):
        yield both
        streams: dict[str, Numbered] = {UP: up, DOWN: down}
        both.ways.update({way: stream.stop() for way, stream in streams.items()})


def _sent_at(number: int, came: Sequence[int], sent_at: Mapping[int, float]) -> float:
    """Return about when a datagram was sent, from the last earlier one that arrived."""
    before = bisect_left(came, number) - 1
    if before < 0:
        return float("-inf")
    return sent_at[came[before]] + (number - came[before]) / THIN_PPS


def _summary(ways: Mapping[str, Counted]) -> str:
    each = (f"{way} {len(one.lost)} of {one.sent} lost, {one.duplicates} duplicated" for way, one in ways.items())
    return "; ".join(each)


# Pings

PING_EVERY_S = 0.01
SUMMARY = re.compile(r"(\d+) packets transmitted, (\d+) received(?:, \+(\d+) duplicates)?")


@dataclass(frozen=True, slots=True)
class PingRun:
    scenario: Scenario
    sent: int
    lost: int
    duplicates: int
    stalled: str

    def __str__(self) -> str:
        return f"{self.sent} pings, {self.scenario.name}: {self.lost} lost, {self.duplicates} duplicated"


def run_pings(lab: Laboratory, scenario: Scenario, count: int) -> PingRun:
    lab.lose(wifi=scenario.before_percent, lte=0)
    lab.stalled()  # forget earlier stalls
    words = ["ping", "-q", "-c", str(count), "-i", str(PING_EVERY_S), "-W", "1", "-I", CLIENT, SERVER]
    began = time.monotonic()
    with lab.client.popen(words, stderr=subprocess.STDOUT, text=True) as pinging:
        till(began + count / 2 * PING_EVERY_S)
        if scenario.after_percent != scenario.before_percent:
            lab.lose(wifi=scenario.after_percent)
        output, _ = pinging.communicate()
    stalled = lab.stalled()
    lab.lose(wifi=0)
    return PingRun(scenario, *ping_counts(output), stalled)


def ping_counts(output: str) -> tuple[int, int, int]:
    """Return sent, lost, duplicated."""
    found = SUMMARY.search(output)
    if found is None:
        raise ExperimentFailed(f"ping printed no summary, only {output.strip()!r}")
    sent, received, duplicates = (int(number or 0) for number in found.groups())
    return sent, sent - received, duplicates
