# SPDX-License-Identifier: Apache-2.0
"""Measure controller and switch: `./bicast experiment bench`, `make bench`.

A ratio's variants take turns in one run on one Open vSwitch: other load affects them alike.
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
        keep(figures, report.DIRECTORY, name)
    print(json.dumps([asdict(each) for each in figures], indent=2) if args.json else table(figures))
    return report.verdict(figures)
