# SPDX-License-Identifier: Apache-2.0
"""Plan repetitions and each path's rate."""

from __future__ import annotations

from dataclasses import dataclass

WAY_BPS = 20_000_000
ONE, TWO = 1, 2  # relays


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    rounds: int
    size_bytes: int


QUICK, FULL = Plan("quick", 3, 15_000_000), Plan("full", 10, 50_000_000)
