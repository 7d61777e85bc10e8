# SPDX-License-Identifier: Apache-2.0
"""Plan the numbers of transfers and connections."""

from __future__ import annotations

from dataclasses import dataclass

DOWN, UP = "down", "up"
DELAY_MS = 10.0  # each way on each side of the relay: 40 ms round trip
BATCH = 5  # connections for a first byte, which count together
WARM = 100  # short connections before open files are counted


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # the stem of its file names in results/relay/cost
    rounds: int  # of transfers, for each route and direction
    seconds: float  # per transfer
    batches: int  # of connections for a first byte, per route
    crowd: int  # connections open at once
    unread: int  # simultaneous downloads that nobody reads
    shorts: int  # sequential


SHORT = Plan("short", 3, 1.0, 2, 8192, 200, 2000)
QUICK = Plan("quick", 5, 1.0, 4, 8192, 200, 5000)
FULL = Plan("full", 20, 2.0, 20, 8192, 200, 100_000)
