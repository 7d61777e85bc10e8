# SPDX-License-Identifier: Apache-2.0
"""Run selected parts."""

from __future__ import annotations

import argparse
import sys

from experiments.relay import PARTS, run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.relay", description="What a relay costs and gains.", allow_abbrev=False
    )
    parser.add_argument("parts", metavar="PART", nargs="*", choices=[*PARTS, []], help=", ".join(PARTS))
    parser.add_argument("--full", action="store_true", help="the long form of each part")
    parser.add_argument("--json", action="store_true", help="print a JSON document for each part")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
