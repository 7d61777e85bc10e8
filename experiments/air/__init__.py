# SPDX-License-Identifier: Apache-2.0
"""Terminals that share an access point: paper 000's control by windows, the ideal window, and nothing, side by side.

./bicast experiment air            1 and 10 terminals at 4 to 256 ms, uploads of 10 s
./bicast experiment air --full     1, 5 and 10 terminals at every distance, both of the paper's tables, uploads of 30 s

Rules are held by an agent at each terminal, or by the gateway's agent alone; with the rule off there is none. Loss,
several connections, a contended air and a wide window scale each have runs of their own. The last terminal begins
later than the others: it is the newcomer.
"""

from __future__ import annotations

import argparse

from experiments.air.measure import carry_out
from experiments.air.plan import FULL, QUICK
from experiments.air.report import HEADER, draw, figures, rows, told
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("air", carry_out, figures, "runs", HEADER, rows, draw, told)
