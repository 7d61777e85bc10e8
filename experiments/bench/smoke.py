"""A minute of the bench: what bicast costs a download, and that a change of mode loses nothing.

Its limits are wider than those of the whole bench, for it repeats less: it finds what is broken, not what is slower.
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments.bench.forwarding import Talk, ratio
from experiments.bench.lab import lab
from experiments.bench.mode_change import one_round
from lab.results.figures import Figure, at_least, exactly, worst
from topologies.paper import PaperTopo

REPEATS, SECONDS = 3, 2
CHANGES = 40


def measure() -> Iterator[Figure]:
    got: dict[str, list[float]] = {"off": [], "bicast": []}
    with lab(PaperTopo(shaped=False), ("bicast: [tcp]", "bicast: [tcp, udp]")) as stage:
        talk = Talk(stage.net, SECONDS)
        for _ in range(REPEATS):
            for mode, goodput in got.items():
                stage.controller.client.set_mode("client", mode)
                goodput.append(talk.mbps(up=False))
        talk.end()
        changed = one_round(stage, CHANGES)
    yield ratio("download goodput, bicast / plain", got["bicast"], got["off"], at_least(0.5))
    lost = [float(len(changed.counted.lost))]
    yield worst(f"{CHANGES} changes of mode: datagrams lost", lost, "datagrams", exactly(0))
    yield worst("  flow modifications sent", [float(changed.flow_mods)], "messages", exactly(0))
