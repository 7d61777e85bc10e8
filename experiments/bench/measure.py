# SPDX-License-Identifier: Apache-2.0
"""Measure the bench's parts, and short forms of experiments."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from experiments import air, failover, once, switching
from experiments.air.plan import SHORT
from experiments.air.starvation.measure import Run, carry_out
from experiments.air.starvation.plan import MIXES
from experiments.air.starvation.report import figures
from experiments.bench import agents, connections, forwarding, golang, mode_change, outages
from experiments.bench.decisions import deciding_cost
from experiments.bench.forwarding import Iperf, ratio
from experiments.bench.laboratory import lab
from experiments.bench.mode_change import one_round
from experiments.bench.plan import FAILOVER, SMOKE_CHANGES, SMOKE_REPEATS, SMOKE_SECONDS, STARVATION_TIMES
from experiments.once.plan import QUICK as ONCE
from experiments.relay import cost, home
from experiments.relay.cost.plan import SHORT as COST
from experiments.relay.home.plan import SHORT as HOME
from experiments.switching.plan import QUICK as SWITCHING
from experiments.transfer.measure import measure_missing
from experiments.transfer.plan import quick
from experiments.transfer.report import Results, figure_of, verdicts
from experiments.transfer.rows import DIRECTORY, Rows
from lab.results.figures import Figure, at_least, exactly, worst
from topologies.paper import PaperTopo


def shared_air() -> Iterator[Figure]:
    yield deciding_cost()
    yield from air.CAMPAIGN.bench(SHORT)


def starvation() -> Iterator[Figure]:
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="starvation-") as logs:
        for run in carry_out(MIXES, STARVATION_TIMES, Path(logs)):
            stalled = f"; NOT COUNTED, the machine stalled: {run.stalled}" if run.stalled else ""
            print(f"{run}{stalled}", file=sys.stderr, flush=True)
            runs.append(run)
    yield from figures(runs)


def relay() -> Iterator[Figure]:
    yield from cost.CAMPAIGN.bench(COST)
    yield from home.CAMPAIGN.bench(HOME)


def transfer() -> Iterator[Figure]:
    plan = quick()
    rows = Rows(DIRECTORY / f"{plan.name}.csv")
    rows.clear()
    measure_missing(plan, rows)
    results = Results(rows.read(), plan.size_bytes)
    print(f"bench: every download is in {rows.file}", file=sys.stderr, flush=True)
    for verdict in verdicts(results):
        yield figure_of(results, verdict)


def smoke() -> Iterator[Figure]:
    """Yield the cost of copies for a download, and the losses of a mode change.

    The limits are wider than in the whole bench, which repeats more: this finds what is broken, not what is slower.
    """
    got: dict[str, list[float]] = {"off": [], "bicast": []}
    with lab(PaperTopo(shaped=False), ("bicast: [tcp]", "bicast: [tcp, udp]")) as stage:
        talk = Iperf(stage.net, SMOKE_SECONDS)
        for _ in range(SMOKE_REPEATS):
            for mode, goodput in got.items():
                stage.controller.client.set_mode("client", mode)
                goodput.append(talk.mbps(up=False))
        talk.end()
        changed = one_round(stage, SMOKE_CHANGES)
    yield ratio("download goodput, bicast / plain", got["bicast"], got["off"], at_least(0.5))
    lost = [float(len(changed.counted.lost))]
    yield worst(f"{SMOKE_CHANGES} changes of mode: datagrams lost", lost, "datagrams", exactly(0))
    yield worst("  flow modifications sent", [float(changed.flow_mods)], "messages", exactly(0))


MEASURES: dict[str, Callable[[], Iterable[Figure]]] = {
    "forwarding": forwarding.measure,
    "mode_change": mode_change.measure,
    "connect": connections.measure,
    "ports": outages.ports,
    "death": outages.death,
    "agents": agents.measure,
    "switching": lambda: switching.CAMPAIGN.bench(SWITCHING),
    "failover": lambda: failover.CAMPAIGN.bench(FAILOVER),
    "once": lambda: once.CAMPAIGN.bench(ONCE),
    "eliminate": golang.elimination,
    "air": shared_air,
    "starvation": starvation,
    "windows": golang.windows,
    "handshakes": golang.floods,
    "relay": relay,
    "transfer": transfer,
    "smoke": smoke,
}
