# SPDX-License-Identifier: Apache-2.0
"""Paper 003's figures 4 to 13: what it does to an upload how much a program writes at once.

./bicast experiment blocksize            writes of 32 B to 8 MB, each four times the one before, uploads of 4 MB
./bicast experiment blocksize --full     each twice the one before, uploads of 16 MB as in the paper, two rounds

One, two and three terminals send at the same time by the access point of topologies/access_point.py: 20 Mbit/s, 1.5 MB
of queue, and 64 ms there and back. At last each writes 8 MB at once under a mark (TCP_NOTSENT_LOWAT) as the agent sets
it for so many sharers (docs/how-to/blocks.md).
"""

from __future__ import annotations

import argparse

from experiments.blocksize.measure import carry_out
from experiments.blocksize.plan import FULL, QUICK
from experiments.blocksize.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("blocksize", carry_out, figures, "runs", HEADER, rows, draw)
