# SPDX-License-Identifier: Apache-2.0
"""Copy everything in both directions and eliminate the copies: what is lost, duplicated and gained?

Wi-Fi has 100 Mbit/s, LTE 10 Mbit/s; modes take turns. Single paths use Wi-Fi. Pings have the criteria of the kernel's
HSR selftest. Tunnels are topologies/natted.py's.
"""

from __future__ import annotations

import argparse

from experiments.once.measure import carry_out
from experiments.once.plan import FULL, QUICK
from experiments.once.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("once", carry_out, figures, "runs", HEADER, rows, draw)
