# SPDX-License-Identifier: Apache-2.0
"""Measure gateway and relay beside a direct connection and other proxies.

Rates and processor time are without delay or limit; first bytes over 20 ms round trip on each side of the relay;
memory, crowds and short connections in fresh processes. Congestion control is the machine's default.
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
