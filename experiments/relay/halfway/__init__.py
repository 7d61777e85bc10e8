# SPDX-License-Identifier: Apache-2.0
"""What the product's own pair gains half way: gateway and relay with MPTCP and TLS between them, beside direct.

As the part `transfers` has it of paper 001's splice, with receive windows of some 64 KiB, and nothing lost. The window
is the kernel's own here, of all four machines, so it is not stated to the byte: gains are what counts.
"""

from __future__ import annotations

import argparse

from experiments.relay.halfway.measure import carry_out
from experiments.relay.halfway.plan import FULL, QUICK
from experiments.relay.halfway.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("relay/halfway", carry_out, figures, "transfers", HEADER, rows, draw)
