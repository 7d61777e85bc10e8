# SPDX-License-Identifier: Apache-2.0
"""The watch over processes that must live: a thread waits for each, and interrupts the main thread when one dies."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from lab.stage.command import CommandFailed

SIGNAL = signal.SIGUSR1
AGAIN_S = 0.1  # a signal that comes just before the main thread goes to sleep does not wake it


@dataclass(frozen=True, slots=True)
class Needed:
    """A process that must live; `log` tells what it has written, also when it is dead."""

    name: str
    pid: int
    log: Callable[[], str]


@contextmanager
def watched(needed: Sequence[Needed], logs: Path) -> Iterator[None]:
    """For a block in the main thread: when one of these dies, it ends with CommandFailed, and the log is in `logs`."""
    deaths = {_death(each, logs): each for each in needed}
    end = os.eventfd(0)
    sentences: list[str] = []
    heard = threading.Event()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if not heard.is_set():
            heard.set()
            raise CommandFailed(sentences[0])

    def watch(main: int) -> None:
        ready = select.select([*deaths, end], [], [])[0]
        if ready == [end]:
            return
        sentences.append(_obituary(next(deaths[death] for death in ready if death != end), logs))
        while not heard.is_set():
            signal.pthread_kill(main, SIGNAL)
            heard.wait(AGAIN_S)

    before = signal.signal(SIGNAL, interrupt)
    watcher = threading.Thread(target=watch, args=(threading.get_ident(),), name="watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        heard.set()
        os.eventfd_write(end, 1)
        watcher.join()
        signal.signal(SIGNAL, before)
        for descriptor in (*deaths, end):
            os.close(descriptor)
        if sentences:  # whatever failed in the block, failed because of it
            raise CommandFailed(sentences[0])


def _death(needed: Needed, logs: Path) -> int:
    """A descriptor that can be read when the process has died."""
    try:
        return os.pidfd_open(needed.pid)
    except ProcessLookupError:
        raise CommandFailed(_obituary(needed, logs)) from None


def _obituary(needed: Needed, logs: Path) -> str:
    file = logs / f"{needed.name}.log"
    logs.mkdir(parents=True, exist_ok=True)
    file.write_text(needed.log(), encoding="utf-8")
    return f"{needed.name} has died, and nothing goes on without it: see why in its log, {file}; then start again"
