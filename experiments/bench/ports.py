"""How soon an uplink whose port goes down has left the buckets, and is back in them when it is up again."""

from __future__ import annotations

import time
from collections.abc import Iterator

from experiments.bench.lab import Lab, lab
from lab.processes.openflow_spy import BARRIER_REPLY
from lab.results.figures import Figure, below, middle, worst
from lab.stage.command import run
from topologies.paper import PaperTopo

ROUNDS = 20
PROMISED_MS = 100.0


def _until_done(lab: Lab, state: str) -> float:
    """Milliseconds from the order to the link until the switch has answered the barrier behind the new groups."""
    began = time.monotonic()
    run("ip", "link", "set", "gw-lte", state)
    return (lab.spy.wait(BARRIER_REPLY, since=began) - began) * 1000


def measure() -> Iterator[Figure]:
    down_ms, up_ms = [], []
    with lab(PaperTopo(shaped=False)) as stage:
        for _ in range(ROUNDS):
            down_ms.append(_until_done(stage, "down"))
            up_ms.append(_until_done(stage, "up"))
    yield worst("a port that goes down has left the buckets", down_ms, "ms", below(PROMISED_MS))
    yield middle("  median", down_ms, "ms")
    yield middle("a port that comes up is back in the buckets, median", up_ms, "ms")
