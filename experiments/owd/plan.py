# SPDX-License-Identifier: Apache-2.0
"""Which links are measured, and how often."""

from __future__ import annotations

from dataclasses import dataclass

STEP_BYTES, LONGEST_BYTES = 16, 1440  # of payload, as in the paper
LENGTHS = LONGEST_BYTES // STEP_BYTES


@dataclass(frozen=True, slots=True)
class Link:
    rate_bps: int
    others: float = 0.0  # the part of the rate that others take
    bucket: bool = False  # the kernel's token bucket, which delays no packet that comes alone

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
        """Ten times what the longest packet takes, and 1 ms at least."""
        return max(1000, round(10 * 8e6 * (LONGEST_BYTES + 42) / self.rate_bps))


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # its files in results/owd are named so
    rounds: int  # of each link
    links: tuple[Link, ...]


RATES = (10_000_000, 100_000_000, 1_000_000_000)
CALIBRATION, CALIBRATIONS = Link(100_000_000), 3
LINKS = (*(Link(rate, others) for rate in RATES for others in (0.0, 0.5)), Link(100_000_000, bucket=True))
QUICK = Plan("quick", 3, LINKS)
FULL = Plan("full", 20, LINKS)
