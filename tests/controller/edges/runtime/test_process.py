# SPDX-License-Identifier: Apache-2.0
"""Objects that survive a garbage collection are skipped by the next ones, for a limited time."""

from __future__ import annotations

import subprocess
import sys

SPARED = """
import gc, time
from controller.edges.runtime import process

class Knot:
    def __init__(self):
        self.itself = self

process.spare()
old = Knot()
gc.collect()
assert gc.get_freeze_count() > 0, "nothing is spared"
del old
assert gc.collect() == 0, "what was spared has been searched again"
now = time.monotonic()
time.monotonic = lambda: now + process.ALL_EVERY_S + 1
gc.collect()
assert gc.get_freeze_count() == 0, "an hour later nothing is spared"
assert gc.collect() > 0, "what was spared is never found"
"""


def test_surviving_objects_are_skipped_for_an_hour() -> None:
    done = subprocess.run([sys.executable, "-c", SPARED], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
