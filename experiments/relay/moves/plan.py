# SPDX-License-Identifier: Apache-2.0
"""Plan the senders, losses and rates of LTE."""

from __future__ import annotations

from dataclasses import dataclass

SENDERS = ("bbr", "cubic")


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # the stem of its file names in results/relay/moves
    rounds: int
    seconds: int
    losses_percent: tuple[int, ...]
    lte_bps: tuple[int, ...]


QUICK = Plan("quick", 1, 30, (10,), (10_000_000, 50_000_000))
FULL = Plan("full", 1, 30, (5, 10, 20), (2_000_000, 10_000_000, 50_000_000, 100_000_000))
