# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C that works at any moment.

Python prints and drops exceptions in code that it calls itself: fork handlers and finalizers. A KeyboardInterrupt there
would be lost, and the program would continue.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

AGAIN_AFTER_S = 0.01  # by then the code that dropped it has returned


def heard_everywhere() -> None:
    """Install the handler for this process; child processes do not inherit it."""
    others = sys.unraisablehook

    def again(swallowed: UnraisableHookArgs) -> None:
        if issubclass(swallowed.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_AFTER_S)
        else:
            others(swallowed)

    sys.unraisablehook = again
    signal.signal(signal.SIGALRM, signal.default_int_handler)
