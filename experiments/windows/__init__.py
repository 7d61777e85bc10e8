# SPDX-License-Identifier: Apache-2.0
"""Sample the server's congestion window, plain and with copies, while no packet is lost on the way up.

Paper 002 supposes (section 4.4) that copied acknowledgements open the window sooner.
"""

from __future__ import annotations

import argparse

from experiments.windows.measure import carry_out
from experiments.windows.plan import FULL, QUICK
from experiments.windows.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("windows", carry_out, figures, "samples", HEADER, rows, draw)
