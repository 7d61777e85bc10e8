# SPDX-License-Identifier: Apache-2.0
"""Plan the transfers and connections."""

from __future__ import annotations

from dataclasses import dataclass

DOWN, UP = "down", "up"
DELAY_MS = 10.0  # each way on each side of the relay: 40 ms round trip
BATCH = 5  # first bytes that count together
WARM = 100  # short connections before counting files


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    rounds: int  # per route and direction
    seconds: float  # per transfer
    batches: int  # of first bytes, per route
    crowd: int  # open at once
    unread: int  # downloads that nobody reads
    shorts: int  # sequential


SHORT = Plan("short", 3, 1.0, 2, 8192, 200, 2000)
QUICK = Plan("quick", 5, 1.0, 4, 8192, 200, 5000)
FULL = Plan("full", 20, 2.0, 20, 8192, 200, 100_000)
