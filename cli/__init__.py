# SPDX-License-Identifier: Apache-2.0
"""The words people type. Verbs call the controller, the topologies and the experiments; none of those knows of them.

A verb's module offers `add(subparsers)`, which describes it to argparse, and `run(args) -> int`, which does it. What
it cannot do it raises as a Failure: one sentence, and what to do.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

OK = 0
REFUSED = 1  # what was asked is not so, or was refused
USAGE = 2  # argparse's own
UNREACHABLE = 3  # the controller does not answer
PARTLY = 4  # done, except for what stderr names
INTERRUPTED = 130  # by Ctrl-C, in the shell's numbers

LONGEST = 500  # characters shown of a sentence: one connection moved between two paths takes 260, in IPv6 up to 400


class Failure(Exception):
    def __init__(self, sentence: str, code: int = REFUSED) -> None:
        super().__init__(sentence)
        self.code = code


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C waits meanwhile. In the midst of an import it would be a traceback, or be swallowed."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
