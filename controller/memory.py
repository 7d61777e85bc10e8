"""What a restart would find: kept up with the core, which knows no disk, and no clock that outlives it."""

from __future__ import annotations

import logging

from controller.core import Core
from controller.keeping import Pages
from controller.known import Wanted
from controller.measuring.book import by_clock
from controller.store import Store, StoreError

log = logging.getLogger(__name__)


def measured(store: Store, now: float, wall_offset_s: float) -> Pages:
    """What was known of roads when the controller ended, its times by the new core's clock."""
    return {way: by_clock(page, lambda at: min(at - wall_offset_s, now)) for way, page in store.measured().items()}


class Memory:
    def __init__(self, store: Store, core: Core) -> None:
        self._store, self._core = store, core
        self._saved = self._tried = self._lasting()  # what a restart would find, and what it should

    def keep(self, wall_offset_s: float) -> None:
        """Or StoreError: a restart would forget what is new."""
        self._tried = self._lasting()
        if self._tried != self._saved:
            wanted, pages = self._tried
            by_wall = {way: by_clock(page, lambda at: max(0.0, at + wall_offset_s)) for way, page in pages.items()}
            self._store.save(wanted, by_wall)
            self._saved = self._tried

    def keep_decisions(self, wall_offset_s: float) -> None:
        """Policies do not wait for a disk, and what could not be kept is not tried again before something changes."""
        if all(now is tried for now, tried in zip(self._lasting(), self._tried, strict=True)):
            return
        try:
            self.keep(wall_offset_s)
        except StoreError as error:
            log.error("%s", error)

    def _lasting(self) -> tuple[Wanted, Pages]:
        return self._core.wanted, self._core.measuring.pages
