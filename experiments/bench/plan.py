# SPDX-License-Identifier: Apache-2.0
"""The bench's parts and their repetitions."""

from __future__ import annotations

from dataclasses import replace

from experiments.failover.plan import QUICK

PARTS = (
    "forwarding",
    "mode_change",
    "connect",
    "ports",
    "death",
    "agents",
    "switching",
    "failover",
    "once",
    "eliminate",
    "air",
    "starvation",
    "windows",
    "handshakes",
    "relay",
    "transfer",
)
SMOKE = ("smoke",)
FAILOVER = replace(QUICK, rounds=3)
STARVATION_TIMES = 2
SMOKE_REPEATS, SMOKE_SECONDS, SMOKE_CHANGES = 3, 2, 40
