# SPDX-License-Identifier: Apache-2.0
"""What the pair of gateway and relay costs, beside a direct connection and beside others' proxies in the same run.

Rates and processor time are of a road without delay or limit; first bytes of one with 20 ms there and back on each side
of the relay; memory, a crowd and many short connections of processes that were started for them. The machine's own
congestion control (Linux: net.ipv4.tcp_congestion_control) is everybody's.
"""

from __future__ import annotations

import argparse

from experiments.relay.cost.measure import carry_out
from experiments.relay.cost.plan import FULL, QUICK
from experiments.relay.cost.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("relay/cost", carry_out, figures, "runs", HEADER, rows, draw)
