"""What the controller and the switch can do, measured: `./bicast experiment bench`, `make bench`.

Each part yields Figures. Ratios are of one run on one Open vSwitch, with the variants taken in turns, so that
what the machine does beside it hits them alike. All parts take about an hour; `python -m experiments.bench PART ...`
measures these alone, and `python -m experiments.bench --smoke` a few ratios in a minute. The figures are kept in
results/bench/ after each part. A promise that was not met is named, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from lab.results.figures import Figure, keep, table
from lab.stage import isolate

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
    "relay",
    "transfer",
)
SMOKE = ("smoke",)
RESULTS = Path(__file__).resolve().parents[2] / "results" / "bench"


def run(args: argparse.Namespace) -> int:
    isolate.enter()
    figures: list[Figure] = []
    parts = SMOKE if getattr(args, "smoke", False) else getattr(args, "parts", None) or PARTS
    name = "bench" if tuple(parts) == PARTS else "-".join(parts)
    for part in parts:
        print(f"bench: {part.replace('_', ' ')} ...", file=sys.stderr, flush=True)
        figures += import_module(f"experiments.bench.{part}").measure()
        keep(figures, RESULTS, name)
    print(json.dumps([asdict(each) for each in figures], indent=2) if args.json else table(figures))
    return verdict(figures)


def verdict(figures: Sequence[Figure]) -> int:
    """Return the exit code; what was promised and not met goes to standard error."""
    broken = [each for each in figures if each.met is False]
    for each in broken:
        measured = f"{each.value:g} {each.unit}".strip()
        print(f"bench: not met: {each.what.strip()}: {measured}, promised {each.promise}", file=sys.stderr)
    return 1 if broken else 0
