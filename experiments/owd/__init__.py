# SPDX-License-Identifier: Apache-2.0
"""Repeat paper 004's tables 2 to 6 and figures 2, 6 to 9: the rate of a link from one-way delays.

Both ends share a clock: measure.py adds a crystal's drift.
"""

from __future__ import annotations

import argparse

from experiments.owd.measure import carry_out
from experiments.owd.plan import FULL, QUICK
from experiments.owd.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("owd", carry_out, figures, "runs", HEADER, rows, draw)
