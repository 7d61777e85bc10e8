# SPDX-License-Identifier: Apache-2.0
"""The window cap methods that this host's agent reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from controller.model.config import CapRule
from gateway.finding import Finding, State, judged
from gateway.host import run
from gateway.scene import CheckContext

AGENT = Path(__file__).resolve().parents[2] / "build" / "bicast-agent"
NAME = "kernel caps"
GATEWAYS = "window"  # a gateway's method; the others are for terminals


def hands(context: CheckContext) -> Iterator[Finding]:
    """Yield a finding about the methods. Terminals on other hosts are not checked."""
    ruled = [one.name for site in context.sites for one in site.access_points if one.rule is not CapRule.OFF]
    if not ruled:
        return
    expected = f"{GATEWAYS}, for terminals of {', '.join(ruled)} without an agent of their own"
    if not AGENT.exists():
        line = f"make -C {AGENT.parents[1]} setup"
        yield Finding(NAME, State.WARNING, f"not known: there is no {AGENT}", expected, line)
        return
    answers = dict(line.split(": ", 1) for line in run((str(AGENT), "caps")).out.splitlines())
    able = [executor for executor, answer in answers.items() if answer == "yes"]
    unable = [f"{executor}: {answer}" for executor, answer in answers.items() if answer != "yes"]
    found = "; ".join([", ".join(able) or "none", *unable])
    yield judged(NAME, GATEWAYS in able, found, expected, else_=State.WARNING)
