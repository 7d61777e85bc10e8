"""What is sent, how often, and over how bad paths."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

ONCE, SINGLE, OFF = "bicast", "single", "off"  # modes; with an agent at each site, bicast is each packet twice and once
MODES = (ONCE, SINGLE, OFF)
# Wi-Fi's packets take 0 to 30 ms and LTE's 15 ms, each way: now this one is first, now that one.
JITTER = {"wifi_jitter_ms": 30.0, "lte_delay_ms": 15.0}


@dataclass(frozen=True, slots=True)
class Losses:
    """What each path loses, each way."""

    wifi_percent: float
    lte_percent: float

    @property
    def both(self) -> float:
        """The share of packets that both lose."""
        return self.wifi_percent * self.lte_percent / 10_000

    def __str__(self) -> str:
        return f"Wi-Fi losing {self.wifi_percent:g} %, LTE {self.lte_percent:g} %"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Of the pings; LTE loses nothing."""

    name: str
    before_percent: float  # that Wi-Fi loses, each way, in the first half
    after_percent: float
    most_doubled: int  # criteria of the kernel's selftest of HSR
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
    name: str  # its files in results/once are named so
    rounds: int  # of pings and of questions
    pings: int
    percent: tuple[float, ...]  # each of them lost by Wi-Fi with each lost by LTE
    beside: tuple[Losses, ...]  # those with which single and off are measured, too
    flow_s: float
    ask_s: float
    cuts: int  # in each mode

    @property
    def flows(self) -> tuple[tuple[str, Losses], ...]:
        grid = [(ONCE, Losses(wifi, lte)) for wifi, lte in product(self.percent, repeat=2)]
        return (*grid, *((mode, losses) for losses, mode in product(self.beside, (SINGLE, OFF))))


QUICK = Plan("quick", 2, 400, (0, 5, 20), (Losses(5, 5), Losses(20, 20)), 8.0, 10.0, 5)
FULL = Plan(
    "full", 5, 400, (0, 1, 2, 5, 10, 20), tuple(Losses(each, each) for each in (0, 1, 2, 5, 10, 20)), 40.0, 20.0, 30
)
