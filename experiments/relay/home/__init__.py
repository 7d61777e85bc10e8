# SPDX-License-Identifier: Apache-2.0
"""Measure a terminal without MPTCP at home while Wi-Fi loses packets.

The home is topologies/home.py's, the relay half way. Terminals and server use cubic, the relay bbr, single paths Wi-Fi.
The guest is without the product.
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
