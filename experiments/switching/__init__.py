# SPDX-License-Identifier: Apache-2.0
"""Switch a live download between two paths repeatedly: what does it cost, and how soon does it act?

Paper 002, section 3.3 and its reference 7 (an external program switches the primary subflow). Wi-Fi and LTE have 20
Mbit/s each, and 20 and 50 ms round trip. Timing begins with `bicast-agent mptcp switch` or the API request, and for
kernels and network with the first MP_PRIO.
"""

from __future__ import annotations

import argparse

from experiments.switching.measure import Run, carry_out
from experiments.switching.plan import FULL, QUICK, Plan
from experiments.switching.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


def _sentence(plan: Plan, one: Run) -> str:
    what = f"{len(one.switches)} switches" if one.switches else "left in peace"
    told = f"{one.actor.name}, sender's queue <= {one.queue}, {what}"
    return f"{told}: {one.bps / 1e6:.1f} Mbit/s, longest pause {one.pause_s * 1000:.0f} ms"


CAMPAIGN = Campaign("switching", carry_out, figures, "switches", HEADER, rows, draw, sentence=_sentence)
