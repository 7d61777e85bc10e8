# SPDX-License-Identifier: Apache-2.0
"""Plan routes, senders, losses and LTE's rates."""

from __future__ import annotations

from dataclasses import dataclass

RELAYED, DIRECT = "relayed", "direct"
SENDERS = ("bbr", "cubic")


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    rounds: int
    seconds: int
    losses_percent: tuple[int, ...]
    lte_bps: tuple[int, ...]


# LTE has less or more than cubic gets from such a Wi-Fi. At 20 % the first seconds decide BBR's rate: only many rounds
# compare then.
QUICK = Plan("quick", 1, 20, (10,), (1_000_000, 100_000_000))
FULL = Plan("full", 1, 20, (5, 10, 20), (1_000_000, 10_000_000, 100_000_000))
