# SPDX-License-Identifier: Apache-2.0
"""Repeat paper 003's figures 4 to 13: uploads by size of writes.

./bicast experiment blocksize            writes of 32 B to 8 MB in steps of four, uploads of 4 MB
./bicast experiment blocksize --full     in steps of two, uploads of 16 MB as in the paper, two rounds

One to three terminals upload over topologies/access_point.py: 20 Mbit/s, 1.5 MB of queue, 64 ms round trip. Finally
each writes 8 MB under the agent's mark (TCP_NOTSENT_LOWAT; docs/how-to/blocks.md).
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
