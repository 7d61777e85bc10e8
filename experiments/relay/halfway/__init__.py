# SPDX-License-Identifier: Apache-2.0
"""Measure gateway and relay half way, with MPTCP and TLS between them, beside direct.

Receive windows are about 64 KiB, the kernel's, and not exact: only gains count. No packets are lost.
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
