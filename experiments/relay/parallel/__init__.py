# SPDX-License-Identifier: Apache-2.0
"""Compare one connection over two relays at once with one relay.

The home is topologies/home.py's. Each relay's path to it has its own rate, and Wi-Fi carries both. There is no
bottleneck beyond: all of a connection passes the relay that serves it.
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
