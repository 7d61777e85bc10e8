# SPDX-License-Identifier: Apache-2.0
"""What a terminal without MPTCP gets at home while Wi-Fi loses packets: carried to a relay in each mode, or left alone.

The home is that of topologies/home.py, with the relay half way to the web server. Terminals and server send with cubic,
the relay with bbr, and what rides one path alone rides Wi-Fi. The guest is a terminal that the product leaves alone.
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
