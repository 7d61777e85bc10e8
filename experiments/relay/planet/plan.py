# SPDX-License-Identifier: Apache-2.0
"""How many planets are generated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # its files in results/relay/planet are named so
    planets: int


QUICK, FULL = Plan("quick", 3), Plan("full", 20)
