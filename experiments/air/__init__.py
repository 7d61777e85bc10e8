# SPDX-License-Identifier: Apache-2.0
"""Compare caps on an access point: paper 000's window control, the ideal window, and no caps.

The last terminal is the newcomer: it starts later.
"""

from __future__ import annotations

import argparse

from experiments.air.measure import carry_out
from experiments.air.plan import FULL, QUICK
from experiments.air.report import HEADER, draw, figures, rows, summary
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("air", carry_out, figures, "runs", HEADER, rows, draw, summary)
