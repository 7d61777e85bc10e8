# SPDX-License-Identifier: Apache-2.0
"""`python -m experiments.relay [PART ...]`: these parts alone."""

from __future__ import annotations

import argparse
import sys

from experiments.relay import PARTS, run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.relay", description="What a relay costs and gains.", allow_abbrev=False
    )
    parser.add_argument("parts", metavar="PART", nargs="*", choices=[*PARTS, []], help=", ".join(PARTS))
    parser.add_argument("--full", action="store_true", help="all of it")
    parser.add_argument("--json", action="store_true", help="what came out, a document for each part")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
