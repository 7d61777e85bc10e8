# SPDX-License-Identifier: Apache-2.0
"""What a call loses: 50 datagrams a second each way between two sites, by scene and mode.

./bicast experiment calls            each scene once
./bicast experiment calls --full     each three times

Wi-Fi is the active uplink until somebody leaves it. In each scene the call goes on over a clean Wi-Fi at first, so long
that who ends copies too soon has done so, and then for BAD_S while something befalls Wi-Fi. The scenes of one stage
follow each other, and Wi-Fi is healed in between. A stage is two sites, with an agent at each that lets one copy of
each packet pass, or with none; with an agent at the client, which has no TCP, or with none; with a budget at Wi-Fi, or
none; over Ethernet, or through tunnels.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from experiments.calls.measure import carry_out
from experiments.calls.plan import STAGES, TIMES
from experiments.calls.report import table
from lab.processes.controller import TREE
from lab.stage import isolate


def run(args: argparse.Namespace) -> int:
    isolate.enter()
    calls = []
    for call in carry_out(STAGES, TREE / "results" / "calls", TIMES if args.full else 1):
        calls.append(call)
        print(call, file=sys.stderr, flush=True)
    print(json.dumps([asdict(call) for call in calls], indent=2) if args.json else table(calls))
    return 0
