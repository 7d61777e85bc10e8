# SPDX-License-Identifier: Apache-2.0
"""Paper 001's figures 5 and 6: what a relay gains, by real transfers over emulated links, and what was predicted of it.

Pairs of hosts, their relays and RTTs are those of a planet (experiments/relay/planet). The relay is the paper's own: a
process that splices two connections of TCP; what the product's pair costs is measured by the part `cost`. Windows are
stated, all senders have cubic, and one relay's processor is crowded.
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
