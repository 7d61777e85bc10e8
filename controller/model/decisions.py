# SPDX-License-Identifier: Apache-2.0
"""The decisions of policies that outlive a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Used:
    """The bytes that an uplink has carried in the period of its budget.

    Each counter counts the whole link, and some see more of it than others or are away for a time: the largest holds.
    """

    period: str  # 2026-11-22, or 2026-11
    by_counter: Mapping[str, int] = field(default_factory=dict)  # switches, and the interface below a tunnel
    used_up: int | None = None  # budget that is used up until the period ends; a larger budget is not
    read: Mapping[str, int] = field(default_factory=dict)  # each counter as last read

    @property
    def bytes(self) -> int:
        return max(self.by_counter.values(), default=0)


@dataclass(frozen=True, slots=True)
class Decisions:
    active: Mapping[str, str] = field(default_factory=dict)  # uplinks, by terminal
    eliminating: frozenset[str] = frozenset()  # sites that eliminate duplicates; their peers copy `bicast_once`
    copies: Mapping[str, bool] = field(default_factory=dict)  # by terminal in mode auto; a missing one means copies
    used: Mapping[str, Used] = field(default_factory=dict)  # by home and uplink, for uplinks with limits
    barred: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by home: uplinks barred from copies
