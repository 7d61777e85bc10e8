# SPDX-License-Identifier: Apache-2.0
"""The commands. The controller, the topologies and the experiments import no verb.

A verb's module has `add(subparsers)` for argparse and `run(args) -> int`. It raises Failure with a sentence that says
what to do.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

OK = 0
REFUSED = 1  # refused, or the answer is no
USAGE = 2  # as in argparse
UNREACHABLE = 3
PARTLY = 4  # done, except for what stderr names
INTERRUPTED = 130  # 128 + SIGINT, as in shells


class Failure(Exception):
    def __init__(self, sentence: str, code: int = REFUSED) -> None:
        super().__init__(sentence)
        self.code = code


@contextmanager
def undisturbed() -> Iterator[None]:
    """Block Ctrl-C, which during an import would print a traceback or be lost."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
