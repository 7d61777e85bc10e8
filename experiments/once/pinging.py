"""Pings while Wi-Fi loses some, is cut, or is faster only now and then: how many were answered, and how often."""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass

from experiments.laboratories.two_sites import CLIENT, Laboratory
from experiments.once.plan import Scenario
from lab.stage.failure import ExperimentFailed
from lab.traffic.streaming import till
from topologies.paper import SERVER

EVERY_S = 0.01
SUMMARY = re.compile(r"(\d+) packets transmitted, (\d+) received(?:, \+(\d+) duplicates)?")


@dataclass(frozen=True, slots=True)
class Pinged:
    scenario: Scenario
    sent: int
    lost: int
    doubled: int
    stalled: str

    def __str__(self) -> str:
        return f"{self.sent} pings, {self.scenario.name}: {self.lost} lost, {self.doubled} duplicated"


def pinged(lab: Laboratory, scenario: Scenario, count: int) -> Pinged:
    lab.lose(wifi=scenario.before_percent, lte=0)
    lab.stalled()  # from here on it counts
    words = ["ping", "-q", "-c", str(count), "-i", str(EVERY_S), "-W", "1", "-I", CLIENT, SERVER]
    began = time.monotonic()
    with lab.client.popen(words, stderr=subprocess.STDOUT, text=True) as pinging:
        till(began + count / 2 * EVERY_S)
        if scenario.after_percent != scenario.before_percent:
            lab.lose(wifi=scenario.after_percent)
        said, _ = pinging.communicate()
    stalled = lab.stalled()
    lab.lose(wifi=0)
    return Pinged(scenario, *counted(said), stalled)


def counted(said: str) -> tuple[int, int, int]:
    """Sent, lost and duplicated, as `ping` tells them at its end."""
    found = SUMMARY.search(said)
    if found is None:
        raise ExperimentFailed(f"ping said nothing of what it sent and received, but {said.strip()!r}")
    sent, received, doubled = (int(number or 0) for number in found.groups())
    return sent, sent - received, doubled
