"""Paper 004's tables 2 to 6 and figures 2, 6 to 9: the rate of a link from how long packets take over it.

./bicast experiment owd            three runs of each link
./bicast experiment owd --full     twenty

Links of 10, 100 and 1000 Mbit/s (topologies/measured.py), half of each others' in every second, and one by a token
bucket. Both ends read one clock here, so the far end's is given a crystal's drift (clocks.py).
"""

from __future__ import annotations

import argparse

from experiments.owd import plot
from experiments.owd.plan import FULL, QUICK, Plan
from experiments.owd.results import HEADER, figures, rows
from experiments.owd.runs import Run, carry_out
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


def _sentence(_plan: Plan, one: Run) -> str:
    return str(one)


CAMPAIGN = Campaign("owd", carry_out, _sentence, figures, "runs", HEADER, rows, plot.draw)
