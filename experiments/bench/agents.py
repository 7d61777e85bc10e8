# SPDX-License-Identifier: Apache-2.0
"""Measure five hundred agents, and one agent's cost on its host."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.bench.connections import gateways, set_controller
from lab.processes.controller import OPENFLOW, TREE, Controller
from lab.processes.gateways import many
from lab.processes.usage import cpu_s, resident_mb
from lab.results.figures import Figure, below, exactly, figure, middle, percentile, worst
from lab.stage import isolate
from lab.stage.command import run

SITES, TERMINALS = 2, 250
AGENTS = SITES * TERMINALS
RUN_S, LOOK_EVERY_S = 600.0, 10.0
WARM_S = 60.0  # memory first used in this time is no growth
PROMISED_MS, PROMISED_CORES = 100.0, 1.0
FLAT = 1.05
GO = TREE / "setup" / "go.sh"
COST_PERCENT, COST_MB, COST_REPORTS = 1.0, 20.0, 30


def measure() -> Iterator[Figure]:
    yield from measure_crowd()
    yield from agent_cost()


def measure_crowd() -> Iterator[Figure]:
    sites = {f"s{at}": _site(at) for at in range(1, SITES + 1)}
    with tempfile.TemporaryDirectory(prefix="crowd-", dir=isolate.RUN_DIRECTORY) as place:
        settings = f", agents: {{directory: {Path(place) / 'trust'}}}"
        with gateways(sites, settings) as controller:
            set_controller(OPENFLOW, *(site["bridge"] for site in sites.values()))
            controller.await_steady()
            with _crowd(controller, sites, Path(place)) as crowd:
                spent, memory_mb = _sample_load(controller.process.pid)
                moved = _moved_terminals(controller)
                result = json.loads(crowd.communicate()[0])
    what = f"{AGENTS} agents that report each second, on {SITES} gateways, for {RUN_S / 60:.0f} min"
    taken, deciding_cost = result["taken_ms"], result["decided_ms"]
    assert deciding_cost and moved, "no decision was made"
    yield figure(f"{what}: report sent until it is taken, p99", percentile(taken, 99), taken, "ms")
    yield middle("  the same, median", taken, "ms")
    promise = below(PROMISED_MS)
    yield figure(
        "  report sent until the order that follows from it, p99",
        percentile(deciding_cost, 99),
        deciding_cost,
        "ms",
        promise,
    )
    yield middle("  the same, median", deciding_cost, "ms")
    yield figure("  controller's processor time", sum(spent) / len(spent), spent, "cores", below(PROMISED_CORES))
    warm, rest = memory_mb[: int(WARM_S / LOOK_EVERY_S)], memory_mb[int(WARM_S / LOOK_EVERY_S) :]
    grown = max(rest) / warm[-1]
    yield figure("  controller's memory at most, to what it was after a minute", grown, [grown], "ratio", below(FLAT))
    yield worst("  controller's memory", memory_mb, "MB")
    lost = float(result["streams"] - AGENTS)
    yield figure("  streams that ended", lost, [lost], "streams", exactly(0))


def _site(at: int) -> dict[str, Any]:
    site = many(TERMINALS, dpid=at, name=f"s{at}", dual_stack=False)
    site["subnets"] = {
        f"side{one}": {"gateways": [f"10.{at}{one}.0.1/16"], "mac": f"02:00:00:00:03:0{one}", "uplink": f"up{one}"}
        for one in (1, 2)
    }
    for number, (name, terminal) in enumerate(site["terminals"].items(), 1):
        (place,) = terminal["addresses"]
        both = [place | {"address": f"10.{at}{one}.1.{number}"} for one in (1, 2)]
        site["terminals"][name] = {"mode": "single", "default_uplink": "up1", "addresses": both}
    return site


@contextmanager
def _crowd(controller: Controller, sites: dict[str, Any], place: Path) -> Iterator[subprocess.Popen[str]]:
    program = place / "crowd"
    run(str(GO), "build", "-o", str(program), "./experiments/bench/crowd")
    lines = []
    for site in sites.values():
        for name, terminal in site["terminals"].items():
            invited = controller.client.invite(name)
            addresses = [each["address"] for each in terminal["addresses"]]
            lines.append(" ".join((name, invited["token"], invited["join"], *addresses)))
    process = subprocess.Popen([program, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\n".join(lines) + "\n\n")
        process.stdin.flush()
        assert process.stdout.readline() == "here\n"
        yield process
    finally:
        process.kill()
        process.wait()


def _sample_load(pid: int) -> tuple[list[float], list[float]]:
    """Return cores and megabytes."""
    spent, memory_mb = [], []
    began = last = time.monotonic()
    before = cpu_s(pid)
    while last - began < RUN_S:
        time.sleep(LOOK_EVERY_S)
        now, spent_s = time.monotonic(), cpu_s(pid)
        spent.append((spent_s - before) / (now - last))
        memory_mb.append(resident_mb(pid))
        last, before = now, spent_s
    return spent, memory_mb


def _moved_terminals(controller: Controller) -> int:
    return sum(one["active_by"] == "policies" for one in controller.client.get("status")["terminals"])


def agent_cost() -> Iterator[Figure]:
    """Run the agent's own benchmark: a real kernel, a hundred connections, a report each second."""
    words = ("test", "./agent/command", "-run", "^$", "-bench", "Cost/reports", "-benchtime", f"{COST_REPORTS}x")
    told = run(str(GO), *words).stdout
    values = {unit: float(value) for value, unit in re.findall(r"([0-9.]+) (%core|MB)\b", told)}
    what = "one agent, 100 MPTCP connections of two subflows, a report each second"
    for unit, promised in (("%core", COST_PERCENT), ("MB", COST_MB)):
        yield figure(f"{what}: {unit}", values[unit], [values[unit]], unit, below(promised))
