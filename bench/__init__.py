"""What the controller and the switch can do, measured: `./bicast experiment bench`, `make bench`.

Each part yields Figures. Ratios are of one run on one Open vSwitch, with the variants taken in turns, so that
what the machine does beside it hits them alike. All parts take about an hour; `python -m bench PART ...`
measures these alone. What came out is kept in results/bench/ after each part.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from bench.figures import Figure, keep, table
from topologies import isolate

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
    "windows",
    "relay",
    "transfer",
)
RESULTS = Path(__file__).resolve().parent.parent / "results" / "bench"


def run(args: argparse.Namespace) -> int:
    isolate.enter()
    figures: list[Figure] = []
    parts = getattr(args, "parts", None) or PARTS
    name = "bench" if tuple(parts) == PARTS else "-".join(parts)
    for part in parts:
        print(f"bench: {part.replace('_', ' ')} ...", file=sys.stderr, flush=True)
        figures += import_module(f"bench.{part}").measure()
        keep(figures, RESULTS, name)
    print(json.dumps([asdict(each) for each in figures], indent=2) if args.json else table(figures))
    return 0
