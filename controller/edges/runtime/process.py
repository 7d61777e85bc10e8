# SPDX-License-Identifier: Apache-2.0
"""The process and its machine."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import re
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TextIO

from controller.policy.copies.budget import Moment

# Log lines: with the time, unless systemd's journal adds it

TIME = "%(asctime)s.%(msecs)03d "
WORDS = "%(levelname)s %(message)s"


def begin() -> None:
    """Set up logging. Times are local, as in `status` and `why`."""
    form = WORDS if _journal(sys.stderr) else TIME + WORDS
    logging.basicConfig(level=logging.INFO, format=form, datefmt="%Y-%m-%d %H:%M:%S", stream=sys.stderr)


def _journal(stream: TextIO) -> bool:
    """Return whether the stream is the journal's. JOURNAL_STREAM (systemd.exec(5)) alone may be inherited."""
    there = os.fstat(stream.fileno())
    return os.environ.get("JOURNAL_STREAM") == f"{there.st_dev}:{there.st_ino}"


# Notices to systemd (sd_notify(3))


def notify(state: str) -> None:
    """Tell systemd the state of the service. Without systemd this does nothing."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_systemd, suppress(OSError):
            to_systemd.sendto(state.encode(), re.sub("^@", "\0", address))


# Garbage collection: full collections are rare
#
# A full one visits all objects and stops every thread, 0.2 s each time with hundreds of terminals. Most of them live
# on, so survivors of one collection are not visited again for an hour.

YOUNG = 10_000  # net new objects before a collection of the youngest; one compilation makes as many
ALL_EVERY_S = 3600.0


class _Spared:
    def __init__(self) -> None:
        self._all_at = time.monotonic() + ALL_EVERY_S

    def __call__(self, phase: str, about: Mapping[str, Any]) -> None:
        if phase != "stop" or about["generation"] != 2:
            return
        if time.monotonic() < self._all_at:
            gc.freeze()
        else:  # the next collection visits all objects
            self._all_at = time.monotonic() + ALL_EVERY_S
            gc.unfreeze()


def spare() -> None:
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    gc.callbacks.append(_Spared())


# The wall clock and its calendar, for budgets by the day

TIME_ERROR = 5  # adjtimex(2): not synchronized
TIMEX_BYTES = 208  # sizeof(struct timex) on 64 bits


def moment(at: float) -> Moment:
    here = time.localtime(at)
    midnight = time.mktime((here.tm_year, here.tm_mon, here.tm_mday + 1, 0, 0, 0, 0, 0, -1))
    tomorrow = _day(time.localtime(midnight)) if synchronised() else None
    return Moment(at, _day(here), midnight, here.tm_gmtoff, tomorrow)


def _day(local: time.struct_time) -> str:
    return time.strftime("%Y-%m-%d", local)


def synchronised() -> bool:
    """Return whether the kernel reports its clock as synchronized. An error counts as not synchronized."""
    try:
        return adjtimex() != TIME_ERROR
    except OSError:
        return False


def adjtimex() -> int:
    """Return the clock's state; a struct of zeros changes nothing (modes = 0). Raise OSError."""
    answer: int = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    if answer < 0:
        raise OSError(ctypes.get_errno(), "adjtimex")
    return answer
