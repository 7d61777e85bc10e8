# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, heard wherever it falls.

What is raised in what Python itself calls between two of our lines, before and after a fork or as an object is taken
away, Python tells and forgets: the program would go on as if nothing had been said.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

AGAIN_AFTER_S = 0.01  # when what swallowed it has returned


def heard_everywhere() -> None:
    """From here on, in this process and in none that it starts."""
    others = sys.unraisablehook

    def again(swallowed: UnraisableHookArgs) -> None:
        if issubclass(swallowed.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_AFTER_S)
        else:
            others(swallowed)

    sys.unraisablehook = again
    signal.signal(signal.SIGALRM, signal.default_int_handler)
