# SPDX-License-Identifier: Apache-2.0
"""Plan traffic, repetitions and losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

ONCE, SINGLE, OFF = "bicast", "single", "off"  # with an agent at each site, bicast delivers once
MODES = (ONCE, SINGLE, OFF)
TWICE = "bicast, TCP twice"  # without agents
# Wi-Fi takes 0 to 30 ms, LTE 15 ms, each way: either may be first.
JITTER = {"wifi_jitter_ms": 30.0, "lte_delay_ms": 15.0}
# A copied upload keeps LTE's queue full. After a cut new data waits behind it, although Wi-Fi delivered its contents.
# So no pause is shorter than the remaining path's queue: 60 kB and 150 kB here.
UPLOADS: Mapping[str, tuple[float, ...]] = {ONCE: (48, 120), SINGLE: (120,)}  # LTE's full queue in ms, by mode


@dataclass(frozen=True, slots=True)
class Losses:
    """Loss of each path, each way."""

    wifi_percent: float
    lte_percent: float

    @property
    def both(self) -> float:
        return self.wifi_percent * self.lte_percent / 10_000

    def __str__(self) -> str:
        return f"Wi-Fi losing {self.wifi_percent:g} %, LTE {self.lte_percent:g} %"


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    before_percent: float  # Wi-Fi's loss, each way, in the first half
    after_percent: float
    max_duplicates: int  # criteria of the kernel's HSR selftest
    reordered: bool = False


SCENARIOS = (
    Scenario("both paths clean", 0, 0, 0),
    Scenario("Wi-Fi cut in the middle", 0, 100, 0),
    Scenario("Wi-Fi losing 20 %", 20, 20, 40),
    Scenario("Wi-Fi losing 80 %", 80, 80, 40),
    Scenario("now one path first, now the other", 0, 0, 40, reordered=True),
)


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    rounds: int  # pings and requests
    pings: int
    percent: tuple[float, ...]  # losses, in all combinations of paths
    beside: tuple[Losses, ...]  # losses that are measured with single and off too
    flow_s: float
    ask_s: float
    cuts: int  # per mode, with datagrams
    upload_cuts: int  # the same with an upload
    flood_packets: int  # through the kernel program alone
    bulk_s: float
    blackouts: int  # downloads per mode, each with Wi-Fi losing all packets for some time
    deaths: int  # of Wi-Fi, while its ports stay up
    tunnelled: int  # repetitions through tunnels

    @property
    def flows(self) -> tuple[tuple[str, Losses], ...]:
        grid = [(ONCE, Losses(wifi, lte)) for wifi, lte in product(self.percent, repeat=2)]
        return (*grid, *((mode, losses) for losses, mode in product(self.beside, (SINGLE, OFF))))


QUICK = Plan(
    name="quick",
    rounds=2,
    pings=400,
    percent=(0, 5, 20),
    beside=(Losses(5, 5), Losses(20, 20)),
    flow_s=8.0,
    ask_s=8.0,
    cuts=5,
    upload_cuts=3,
    flood_packets=300_000,
    bulk_s=4.0,
    blackouts=1,
    deaths=2,
    tunnelled=2,
)
FULL = Plan(
    name="full",
    rounds=4,
    pings=400,
    percent=(0, 1, 2, 5, 10, 20),
    beside=tuple(Losses(each, each) for each in (0, 1, 2, 5, 10, 20)),
    flow_s=8.0,
    ask_s=10.0,
    cuts=30,
    upload_cuts=8,
    flood_packets=10_000_000,
    bulk_s=8.0,
    blackouts=2,
    deaths=4,
    tunnelled=2,
)
