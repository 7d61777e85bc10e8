# SPDX-License-Identifier: Apache-2.0
"""The thread that writes the state file: the core decides without waiting for a disk."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from controller.edges.state.store import Pages, Store, StoreError
from controller.features.probing.path_record import by_clock
from controller.model.decisions import Decisions
from controller.model.in_force import InForce
from controller.model.overrides import Overrides

log = logging.getLogger(__name__)

State = tuple[Overrides, Decisions, Pages]


@dataclass(slots=True)
class Save:
    """A state on its way to the disk. A request waits for it."""

    state: State
    wall_offset_s: float
    answered: bool = False
    failed: str | None = None  # why a restart would lose the state
    _before: list[Save] = field(default_factory=list, repr=False)  # older states, which this one replaces


class StateWriter:
    """Writes the newest state. One that failed is tried again."""

    def __init__(self, store: Store, state: State, woken: Callable[[], None]) -> None:
        """`state` is on the disk. `woken` is called after each write, in the writer's thread."""
        self._store, self._woken = store, woken
        self._last = state  # the last one that was ordered
        self._on_disk: State | None = state  # None: unknown, after a failure
        self._failed: str | None = None
        self._next: Save | None = None
        self._stops = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="state", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return once the last state is written, or could not be."""
        with self._changed:
            self._stops = True
            self._changed.notify()
        self._thread.join()

    def save(self, state: State, wall_offset_s: float) -> Save:
        """Order the state to be written, and return at once."""
        with self._changed:
            before = [self._next, *self._next._before] if self._next is not None else []
            self._last = state
            self._next = Save(state, wall_offset_s, _before=before)
            self._changed.notify()
            return self._next

    def tend(self, state: State, wall_offset_s: float) -> None:
        """Order the state to be written if it has changed, or if the last write failed."""
        if self._failed is not None or any(now is not last for now, last in zip(state, self._last, strict=True)):
            self.save(state, wall_offset_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next is not None or self._stops)
                save, self._next = self._next, None
            if save is None:
                return
            self._write(save)
            for each in (save, *save._before):
                each.failed, each.answered = self._failed, True
            self._woken()

    def _write(self, save: Save) -> None:
        if save.state == self._on_disk:
            return
        overrides, decisions, pages = save.state
        by_wall = {way: by_clock(page, lambda at: max(0.0, at + save.wall_offset_s)) for way, page in pages.items()}
        try:
            self._store.save(InForce(overrides, decisions), by_wall)
        except StoreError as error:
            if str(error) != self._failed:
                log.error("%s", error)
            self._on_disk, self._failed = None, str(error)
            return
        if self._failed is not None:
            log.info("the state that could not be written before is now saved")
        self._on_disk, self._failed = save.state, None
