# SPDX-License-Identifier: Apache-2.0
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
from dataclasses import asdict

from experiments.bench import report
from experiments.bench.measure import MEASURES
from experiments.bench.plan import PARTS, SMOKE
from lab.results.figures import Figure, keep, table
from lab.stage import isolate


def run(args: argparse.Namespace) -> int:
    isolate.enter()
    figures: list[Figure] = []
    parts = SMOKE if getattr(args, "smoke", False) else getattr(args, "parts", None) or PARTS
    name = "bench" if tuple(parts) == PARTS else "-".join(parts)
    for part in parts:
        print(f"bench: {part.replace('_', ' ')} ...", file=sys.stderr, flush=True)
        figures += MEASURES[part]()
        keep(figures, report.RESULTS, name)
    print(json.dumps([asdict(each) for each in figures], indent=2) if args.json else table(figures))
    return report.verdict(figures)
