# SPDX-License-Identifier: Apache-2.0
"""Plan the routes, senders, losses and rates of LTE."""

from __future__ import annotations

from dataclasses import dataclass

RELAYED, DIRECT = "relayed", "direct"
SENDERS = ("bbr", "cubic")


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # the stem of its file names in results/relay/moves
    rounds: int
    seconds: int
    losses_percent: tuple[int, ...]
    lte_bps: tuple[int, ...]


# From 20 % on, the first seconds decide BBR's rate for the rest: no single run compares then.
LOSSES_PERCENT = (10, 15)
LTE_BPS = (1_000_000, 100_000_000)  # less and more than cubic gets from such a Wi-Fi
QUICK = Plan("quick", 1, 20, LOSSES_PERCENT[:1], LTE_BPS)
FULL = Plan("full", 1, 20, LOSSES_PERCENT, LTE_BPS)
