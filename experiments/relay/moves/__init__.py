# SPDX-License-Identifier: Apache-2.0
"""Compare a download that policies may move with one that stays.

Wi-Fi has 100 Mbit/s and loses packets on the way down. The sender uses bbr or cubic, the mode is single. An override
keeps the first download on Wi-Fi.

relayed   the home of topologies/home.py; the sender is the relay
direct    topologies/switching.py's laboratory; the sender is the server, which speaks MPTCP like the terminal
"""

from __future__ import annotations

import argparse

from experiments.relay.moves.measure import carry_out
from experiments.relay.moves.plan import FULL, QUICK
from experiments.relay.moves.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("relay/moves", carry_out, figures, "runs", HEADER, rows, draw)
