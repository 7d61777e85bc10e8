# SPDX-License-Identifier: Apache-2.0
"""Repeat paper 003's figures 4 to 13: uploads by size of writes.

The queue of topologies/access_point.py has 1.5 MB. The last writes of 8 MB are under the agent's mark
(TCP_NOTSENT_LOWAT; docs/how-to/blocks.md).
"""

from __future__ import annotations

import argparse

from experiments.blocksize.measure import carry_out
from experiments.blocksize.plan import FULL, QUICK
from experiments.blocksize.report import HEADER, draw, figures, rows
from lab.results.campaign import Campaign


def run(args: argparse.Namespace) -> int:
    return CAMPAIGN.run(FULL if args.full else QUICK, args.json)


CAMPAIGN = Campaign("blocksize", carry_out, figures, "runs", HEADER, rows, draw)
