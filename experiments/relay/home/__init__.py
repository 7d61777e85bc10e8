# SPDX-License-Identifier: Apache-2.0
"""Measure a terminal without MPTCP at home while Wi-Fi loses packets: relayed in each mode, or not.

The home is that of topologies/home.py, with the relay half way to the web server. Terminals and server use cubic, the
relay bbr, and single paths use Wi-Fi. The guest is a terminal without the product.
"""

from __future__ import annotations

import argparse

from experiments.relay.home.measure import carry_out
from experiments.relay.home.plan import FULL, QUICK
from experiments.relay.home.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("relay/home", carry_out, figures, "runs", HEADER, rows, draw)
