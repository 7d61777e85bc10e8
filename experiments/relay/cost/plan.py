# SPDX-License-Identifier: Apache-2.0
"""How much of everything is done."""

from __future__ import annotations

from dataclasses import dataclass

DOWN, UP = "down", "up"
DELAY_MS = 10.0  # each way on each side of the relay: 40 ms there and back
BATCH = 5  # connections for their first byte, which count or do not count together
WARM = 100  # short connections, before what stands open is counted


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # its files in results/relay/cost are named so
    rounds: int  # of transfers, each way of each
    seconds: float  # of a transfer
    batches: int  # of connections for their first byte, each
    crowd: int  # connections open at once
    unread: int  # downloads at once, which nobody reads
    shorts: int  # one after the other


SHORT = Plan("short", 3, 1.0, 2, 8192, 200, 2000)
QUICK = Plan("quick", 5, 1.0, 4, 8192, 200, 5000)
FULL = Plan("full", 20, 2.0, 20, 8192, 200, 100_000)
