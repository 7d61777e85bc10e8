"""Wi-Fi dies silently, its ports up: how soon that is told, and how soon either switch sends no copies by it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from experiments.laboratories.two_sites import ACTIVE, Laboratory, sends
from experiments.once.flows import THIN_PPS, both_ways
from lab.stage.failure import ExperimentFailed
from lab.traffic.streaming import till

BEFORE_S = 3.0  # both paths have brought copies, and two reports have told of it
LOOK_EVERY_S = 0.005
WITHIN_S = 20.0
TOLD_S = 2.0  # promised


@dataclass(frozen=True, slots=True)
class Died:
    told_s: float  # from the death until the controller tells that Wi-Fi brings no copies, at either site
    left_s: Mapping[str, float]  # from that on until no group of a site sends by Wi-Fi
    said: str  # by the controller meanwhile
    stalled: str

    def __str__(self) -> str:
        left = ", ".join(f"{each * 1000:.0f} ms at {site}" for site, each in self.left_s.items())
        told = f"Wi-Fi died: told after {self.told_s:.2f} s, then out of the groups after {left}"
        return f"{told}; the controller said:\n{self.said.strip()}" if self.told_s > TOLD_S else told


def died(lab: Laboratory) -> Died:
    """Everything is copied."""
    told, gone = None, dict[str, float]()
    heard = len(lab.controller.heard())
    lab.stalled()  # from here on it counts
    with both_ways(lab, THIN_PPS):
        till(time.monotonic() + BEFORE_S)
        death = time.monotonic()
        lab.lose(wifi=100)
        while told is None or len(gone) < len(lab.sites):
            if told is None and _is_told(lab):
                told = time.monotonic()
            gone |= {each.name: time.monotonic() for each in lab.sites if each.name not in gone and not sends(each)}
            if time.monotonic() > death + WITHIN_S:
                raise ExperimentFailed(f"{WITHIN_S:.0f} s after Wi-Fi's death groups send by it, but at {[*gone]}")
            till(time.monotonic() + LOOK_EVERY_S)
    # Who looks at one thing after the other may see the groups first.
    left = {site: max(0.0, moment - told) for site, moment in gone.items()}
    return Died(told - death, left, lab.controller.heard()[heard:], lab.stalled())


def _is_told(lab: Laboratory) -> bool:
    gateways = lab.controller.client.get("status")["gateways"]
    return any(silent["uplink"] == ACTIVE for one in gateways for silent in one["copies"]["silent"])
