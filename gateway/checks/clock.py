"""The clock: certificates have a beginning and an end, and one-way delays are differences of two clocks."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

from gateway.finding import Finding, State, judged
from gateway.scene import Scene

TIME_ERROR = 5  # adjtimex(2): not synchronized
TIMEX_BYTES = 208  # sizeof(struct timex) on 64 bits


def clock(scene: Scene) -> Iterator[Finding]:
    right = adjtimex() != TIME_ERROR
    found = "synchronized" if right else "not synchronized"
    yield judged("clock", right, found, "synchronized", "apt-get install -y chrony", else_=State.WARNING)


def adjtimex() -> int:
    """The clock's state; a struct of zeros changes nothing (modes = 0)."""
    answer: int = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    if answer < 0:
        raise OSError(ctypes.get_errno(), "adjtimex")
    return answer
