# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C that works at any moment.

Python prints and drops a KeyboardInterrupt in fork handlers and finalizers; the program would continue.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

AGAIN_AFTER_S = 0.01  # by then the dropping code has returned


def heard_everywhere() -> None:
    """Install the handler; child processes do not inherit it."""
    others = sys.unraisablehook

    def again(swallowed: UnraisableHookArgs) -> None:
        if issubclass(swallowed.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_AFTER_S)
        else:
            others(swallowed)

    sys.unraisablehook = again
    signal.signal(signal.SIGALRM, signal.default_int_handler)
