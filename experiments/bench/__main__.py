# SPDX-License-Identifier: Apache-2.0
"""Run selected parts."""

from __future__ import annotations

import argparse
import sys

from experiments.bench import run
from experiments.bench.plan import PARTS


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.bench", description="Measure the controller and the switch.", allow_abbrev=False
    )
    parser.add_argument("parts", metavar="PART", nargs="*", choices=[*PARTS, []], help=", ".join(PARTS))
    parser.add_argument("--smoke", action="store_true", help="a few ratios, in a minute")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON document")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
