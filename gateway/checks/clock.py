# SPDX-License-Identifier: Apache-2.0
"""The clock, on which certificates and one-way delays depend."""

from __future__ import annotations

from collections.abc import Iterator

from controller.edges.runtime.process import TIME_ERROR, adjtimex
from gateway.finding import Finding, State, judged
from gateway.scene import CheckContext


def clock(context: CheckContext) -> Iterator[Finding]:
    right = adjtimex() != TIME_ERROR
    found = "synchronized" if right else "not synchronized"
    yield judged("clock", right, found, "synchronized", "apt-get install -y chrony", else_=State.WARNING)
