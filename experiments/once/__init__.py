"""Everything copied in both directions, and of all copies one: what is still lost, what comes twice, what it is worth.

./bicast experiment once            pings, datagrams over a grid of losses, questions and answers, cuts of Wi-Fi
./bicast experiment once --full     more losses and more of each

Two sites with an agent at each, Wi-Fi of 100 Mbit/s and LTE of 10 Mbit/s between them, modes in turns. What rides one
path alone rides Wi-Fi. Pings are judged by the criteria of the kernel's selftest of HSR.
"""

from __future__ import annotations

import argparse

from experiments.campaign import Campaign
from experiments.once import plot
from experiments.once.plan import FULL, QUICK, Plan
from experiments.once.results import figures, keep_runs
from experiments.once.runs import Run, carry_out


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


def _sentence(_plan: Plan, one: Run) -> str:
    return str(one)


CAMPAIGN = Campaign("once", carry_out, _sentence, figures, "runs", keep_runs, plot.draw)
