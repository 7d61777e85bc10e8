# SPDX-License-Identifier: Apache-2.0
"""Plan the number of planets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    planets: int


QUICK, FULL = Plan("quick", 3), Plan("full", 20)
