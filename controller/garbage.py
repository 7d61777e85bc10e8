"""Python's search for cyclic garbage, made short.

It holds up every thread while it looks at all that lives, and of a house with hundreds of terminals most of that is
programs that live on: a fifth of a second each time, with every report and every wish waiting. So what has outlived one
search is not looked at again for an hour.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from typing import Any

YOUNG = 10_000  # made and not gone, until the youngest are searched; a compilation makes as many
ALL_EVERY_S = 3600.0


class _Spared:
    def __init__(self) -> None:
        self._all_at = time.monotonic() + ALL_EVERY_S

    def __call__(self, phase: str, about: Mapping[str, Any]) -> None:
        if phase != "stop" or about["generation"] != 2:
            return
        if time.monotonic() < self._all_at:
            gc.freeze()
        else:  # the next one sees all
            self._all_at = time.monotonic() + ALL_EVERY_S
            gc.unfreeze()


def spare() -> None:
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    gc.callbacks.append(_Spared())
