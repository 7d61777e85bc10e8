# SPDX-License-Identifier: Apache-2.0
"""Repeat paper 002's tables 3 and 4 (section 3.3): capture the copies at client, router and server.

Halfway `./bicast switch` makes an agent send MP_PRIO: once the client's, once the server's as in the paper. Upstream
MPTCP applies the choice of one end to both directions.
"""

from __future__ import annotations

import argparse
import json

from experiments.capture.measure import carry_out
from experiments.capture.plan import SWITCHERS
from experiments.capture.report import document, keep_rows, text
from lab.stage import isolate


def run(args: argparse.Namespace) -> int:
    isolate.enter()
    seen = {switcher.machine: carry_out(switcher) for switcher in SWITCHERS}
    keep_rows(seen)
    print(json.dumps(document(seen), indent=2) if args.json else text(seen))
    return 0
