# SPDX-License-Identifier: Apache-2.0
"""What a terminal's one connection gets by two relays at once, each on a way of its own, beside one relay.

The home is that of topologies/home.py. What each relay sends there has a rate of its own, and Wi-Fi carries more than
both; between relays and server nothing is narrow, for all of a connection passes the relay that serves it. The terminal
keeps to Wi-Fi; with the one relay gone the other is alone.
"""

from __future__ import annotations

import argparse

from experiments.relay.parallel.measure import carry_out
from experiments.relay.parallel.plan import FULL, QUICK
from experiments.relay.parallel.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("relay/parallel", carry_out, figures, "runs", HEADER, rows, draw)
