# SPDX-License-Identifier: Apache-2.0
"""What policies make of a relayed download on a lossy Wi-Fi, beside staying there: by loss, LTE's rate and the sender.

The home is that of topologies/home.py. Wi-Fi carries 100 Mbit/s and loses packets on the way down. The relay sends with
bbr or cubic, the terminal is in mode single. Each download runs for the same time: once kept on Wi-Fi by an override,
once left to policies.
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
