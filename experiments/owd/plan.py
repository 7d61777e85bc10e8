# SPDX-License-Identifier: Apache-2.0
"""Plan the links and repetitions."""

from __future__ import annotations

from dataclasses import dataclass

STEP_BYTES, LONGEST_BYTES = 16, 1440  # payload, as in the paper
LENGTHS = LONGEST_BYTES // STEP_BYTES


@dataclass(frozen=True, slots=True)
class Link:
    rate_bps: int
    others: float = 0.0  # cross traffic's share of the rate
    bucket: bool = False  # the kernel's, which does not delay single packets

    def __str__(self) -> str:
        told = f"{self.rate_bps / 1e6:g} Mbit/s"
        if self.bucket:
            return f"{told} by a token bucket"
        return f"{told}, {100 * self.others:g} % of it others'" if self.others else told

    @property
    def tries(self) -> int:
        return 10 if self.rate_bps < 100e6 else 100

    @property
    def every_us(self) -> int:
        """Return ten times the longest packet's transmission time, at least 1 ms."""
        return max(1000, round(10 * 8e6 * (LONGEST_BYTES + 42) / self.rate_bps))


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    rounds: int  # per link
    links: tuple[Link, ...]


RATES = (10_000_000, 100_000_000, 1_000_000_000)
CALIBRATION, CALIBRATIONS = Link(100_000_000), 3
LINKS = (*(Link(rate, others) for rate in RATES for others in (0.0, 0.5)), Link(100_000_000, bucket=True))
QUICK = Plan("quick", 3, LINKS)
FULL = Plan("full", 20, LINKS)
