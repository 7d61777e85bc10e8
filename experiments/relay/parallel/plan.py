# SPDX-License-Identifier: Apache-2.0
"""How often each number of relays is measured, and how fast each relay's way is."""

from __future__ import annotations

from dataclasses import dataclass

WAY_BPS = 20_000_000
ONE, TWO = 1, 2  # relays


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # its files in results/relay/parallel are named so
    rounds: int
    size_bytes: int


QUICK, FULL = Plan("quick", 3, 15_000_000), Plan("full", 10, 50_000_000)
