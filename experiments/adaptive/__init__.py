# SPDX-License-Identifier: Apache-2.0
"""Compare mode auto with copies always and never, while Wi-Fi goes from clean to dead and back.

Wi-Fi has 100 Mbit/s and 20 ms round trip, LTE 10 Mbit/s and 50 ms. A bulk transfer's rate over a lossy path is random,
and a slower LTE could not carry the copies: so a camera uploads 4 Mbit/s. An override keeps Wi-Fi active, so that modes
differ only in copies.
"""

from __future__ import annotations

import argparse

from experiments.adaptive.measure import carry_out
from experiments.adaptive.plan import FULL, QUICK
from experiments.adaptive.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("adaptive", carry_out, figures, "phases", HEADER, rows, draw)
