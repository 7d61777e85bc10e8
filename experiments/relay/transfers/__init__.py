# SPDX-License-Identifier: Apache-2.0
"""Repeat paper 001's figures 5 and 6: relays' gain over emulated links, and the prediction.

Pairs, relays and RTTs come from experiments/relay/planet. The relay is the paper's, which splices two TCP connections.
Windows are fixed, senders use cubic, and one relay's processor is busy.
"""

from __future__ import annotations

import argparse

from experiments.relay.transfers.measure import carry_out
from experiments.relay.transfers.plan import FULL, QUICK
from experiments.relay.transfers.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("relay/transfers", carry_out, figures, "transfers", HEADER, rows, draw)
