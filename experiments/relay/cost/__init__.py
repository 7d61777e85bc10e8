"""What the pair of gateway and relay costs, beside a direct connection and beside others' proxies in the same run.

Rates and processor time are of a road without delay or limit; first bytes of one with 20 ms there and back on each side
of the relay; memory, a crowd and many short connections of processes that were started for them. The machine's own
congestion control (Linux: net.ipv4.tcp_congestion_control) is everybody's.
"""

from __future__ import annotations

import argparse

from experiments.relay.cost import plot
from experiments.relay.cost.measuring import carry_out
from experiments.relay.cost.plan import FULL, QUICK, Plan
from experiments.relay.cost.results import HEADER, figures, rows
from experiments.relay.cost.runs import Run
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


def _sentence(_plan: Plan, one: Run) -> str:
    return str(one)


CAMPAIGN = Campaign("relay/cost", carry_out, _sentence, figures, "runs", HEADER, rows, plot.draw)
