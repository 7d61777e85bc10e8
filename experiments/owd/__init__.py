# SPDX-License-Identifier: Apache-2.0
"""Paper 004's tables 2 to 6 and figures 2, 6 to 9: the rate of a link from how long packets take over it.

./bicast experiment owd            three runs of each link
./bicast experiment owd --full     twenty

Links of 10, 100 and 1000 Mbit/s (topologies/measured.py), half of each others' in every second, and one by a token
bucket. Both ends read one clock here, so the far end's is given a crystal's drift (measure.py).
"""

from __future__ import annotations

import argparse

from experiments.owd.measure import carry_out
from experiments.owd.plan import FULL, QUICK
from experiments.owd.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("owd", carry_out, figures, "runs", HEADER, rows, draw)
