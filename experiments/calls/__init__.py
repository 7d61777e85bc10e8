# SPDX-License-Identifier: Apache-2.0
"""Measure the loss of a call: 50 datagrams a second each way between two sites, by scene and mode.

Each scene begins with clean, active Wi-Fi, long enough for a premature end of copies, then damages Wi-Fi for BAD_S.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from experiments.calls.measure import carry_out
from experiments.calls.plan import STAGES, TIMES
from experiments.calls.report import table
from lab.results import RESULTS
from lab.stage import isolate


def run(args: argparse.Namespace) -> int:
    isolate.enter()
    calls = []
    for call in carry_out(STAGES, RESULTS / "calls", TIMES if args.full else 1):
        calls.append(call)
        print(call, file=sys.stderr, flush=True)
    print(json.dumps([asdict(call) for call in calls], indent=2) if args.json else table(calls))
    return 0
