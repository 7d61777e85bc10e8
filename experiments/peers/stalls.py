# SPDX-License-Identifier: Apache-2.0
"""Record the machine's stalls: a real-time process sleeps 1 ms at a time and notes each longer sleep.

stalls.py       prints `sampling`; after a line on stdin [[began_at, ended_at], ...] as JSON, in time.monotonic()
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

SLEEP_S = 0.001
STALL_S = 0.005
PRIORITY = 50  # above each ordinary process


def main() -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    stopped = threading.Thread(target=sys.stdin.readline, daemon=True)
    stopped.start()
    stalls: list[tuple[float, float]] = []
    print("sampling", flush=True)
    before = time.monotonic()
    while stopped.is_alive():
        time.sleep(SLEEP_S)
        now = time.monotonic()
        if now - before > SLEEP_S + STALL_S:
            stalls.append((before, now))
        before = now
    print(json.dumps(stalls))


if __name__ == "__main__":
    main()
