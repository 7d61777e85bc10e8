# SPDX-License-Identifier: Apache-2.0
"""Plan round trips and repetitions."""

from __future__ import annotations

from dataclasses import dataclass

WAYS = ("up", "down")


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    rtts_ms: tuple[float, ...]  # of the direct path
    rounds: int
    seconds: float


QUICK, FULL = Plan("quick", (80.0, 300.0), 1, 5.0), Plan("full", (80.0, 120.0, 160.0, 230.0, 300.0), 5, 10.0)
