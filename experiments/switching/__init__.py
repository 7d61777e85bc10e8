# SPDX-License-Identifier: Apache-2.0
"""Switching a live download between two paths, softly, again and again: what does it cost, and how soon does it act?

./bicast experiment switching            20 switches at 0.5 s by each hand, beside the same download left in peace
./bicast experiment switching --full     five rounds of that

Paper 002, section 3.3 and its reference 7 (an external program switches the primary subflow). Wi-Fi and LTE have
20 Mbit/s each, and 20 and 50 ms there and back. An order is timed from the start of `bicast-agent mptcp switch`, or
from the API's being asked what `./bicast switch` asks; and from the first MP_PRIO: the kernels' and the wire's share.
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
    told = f"{one.hand.name}, sender's queue <= {one.queue}, {what}"
    return f"{told}: {one.bps / 1e6:.1f} Mbit/s, longest pause {one.pause_s * 1000:.0f} ms"


CAMPAIGN = Campaign("switching", carry_out, figures, "switches", HEADER, rows, draw, sentence=_sentence)
