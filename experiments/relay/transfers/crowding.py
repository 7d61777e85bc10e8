"""A relay whose processor is others' most of the time: its process runs for 20 of every 400 ms.

It is stopped and continued in turns. A quota of the kernel's groups, shared with a process that never rests, would do
the same on a machine with nothing else to do; on a busy one that process does not get to use the quota up.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STOPPED_S, RUNNING_S = 0.38, 0.02


@contextmanager
def crowded(pid: int) -> Iterator[None]:
    over = threading.Event()
    others = threading.Thread(target=_take_turns, args=(pid, over), daemon=True)
    others.start()
    try:
        yield
    finally:
        over.set()
        others.join()


def _take_turns(pid: int, over: threading.Event) -> None:
    while not over.is_set():
        os.kill(pid, signal.SIGSTOP)
        over.wait(STOPPED_S)
        os.kill(pid, signal.SIGCONT)
        over.wait(RUNNING_S)
