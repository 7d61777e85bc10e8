# SPDX-License-Identifier: Apache-2.0
"""Interrupt the main thread when a process that must live dies."""

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

INTERRUPT = signal.SIGUSR1
RESEND_S = 0.1  # a signal just before the main thread sleeps is lost


@dataclass(frozen=True, slots=True)
class WatchedProcess:
    """A process that must live; `log` returns its output, even after death."""

    name: str
    pid: int
    log: Callable[[], str]


@contextmanager
def watched(needed: Sequence[WatchedProcess], logs: Path) -> Iterator[None]:
    """Raise CommandFailed in the main thread when one dies; save its log in `logs`."""
    deaths = {_death(each, logs): each for each in needed}
    end = os.eventfd(0)
    sentences: list[str] = []
    delivered = threading.Event()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if not delivered.is_set():
            delivered.set()
            raise CommandFailed(sentences[0])

    def watch(main: int) -> None:
        ready = select.select([*deaths, end], [], [])[0]
        if ready == [end]:
            return
        sentences.append(_death_report(next(deaths[death] for death in ready if death != end), logs))
        while not delivered.is_set():
            signal.pthread_kill(main, INTERRUPT)
            delivered.wait(RESEND_S)

    before = signal.signal(INTERRUPT, interrupt)
    watcher = threading.Thread(target=watch, args=(threading.get_ident(),), name="watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        delivered.set()
        os.eventfd_write(end, 1)
        watcher.join()
        signal.signal(INTERRUPT, before)
        for descriptor in (*deaths, end):
            os.close(descriptor)
        if sentences:  # the block's other failures follow from this death
            raise CommandFailed(sentences[0])


def _death(needed: WatchedProcess, logs: Path) -> int:
    """Return a descriptor that becomes readable when the process dies."""
    try:
        return os.pidfd_open(needed.pid)
    except ProcessLookupError:
        raise CommandFailed(_death_report(needed, logs)) from None


def _death_report(needed: WatchedProcess, logs: Path) -> str:
    file = logs / f"{needed.name}.log"
    logs.mkdir(parents=True, exist_ok=True)
    file.write_text(needed.log(), encoding="utf-8")
    return f"{needed.name} has died, and the run needs it; read its log {file}, then start again"
