# SPDX-License-Identifier: Apache-2.0
"""The thread that compares the core's state each second and records what happened."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict

from controller.edges.state.journal import Journal
from controller.protocol.requests import NotAnswered
from controller.readout.events import events
from controller.readout.snapshot import Watched

log = logging.getLogger(__name__)

EVERY_S = 1.0


class Recorder:
    def __init__(self, read: Callable[[], Watched], journal: Journal) -> None:
        self._read = read
        self._journal = journal
        self._before: Watched | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(EVERY_S):
            try:
                after = self._read()
            except NotAnswered as error:
                log.warning("events are late: %s", error)
                continue
            if self._before is not None:
                for event in events(self._before, after):
                    self._journal.add(time.time(), asdict(event))
            self._before = after
