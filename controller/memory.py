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
        self._saved = self._lasting()  # what a restart would find
        self._failed = ""  # why it may find something else: the sentence of the last try

    def keep(self, wall_offset_s: float) -> None:
        """Or StoreError: a restart would forget what is new, unless `keep_decisions` can write it later."""
        lasting = self._lasting()
        if self._failed or lasting != self._saved:  # what a failure has left on the disk is not known
            wanted, pages = lasting
            by_wall = {way: by_clock(page, lambda at: max(0.0, at + wall_offset_s)) for way, page in pages.items()}
            try:
                self._store.save(wanted, by_wall)
            except StoreError as error:
                self._failed = str(error)
                raise
        self._saved = lasting
        self._failed = ""

    def keep_decisions(self, wall_offset_s: float) -> None:
        """Policies do not wait for a disk. What could not be kept, wishes too, is tried again; its failure is logged
        once."""
        failed = self._failed
        if not failed and all(now is saved for now, saved in zip(self._lasting(), self._saved, strict=True)):
            return
        try:
            self.keep(wall_offset_s)
        except StoreError as error:
            if str(error) != failed:
                log.error("%s", error)
            return
        if failed:
            log.info("what could not be written before is kept now, and a restart finds it")

    def _lasting(self) -> tuple[Wanted, Pages]:
        return self._core.wanted, self._core.measuring.pages
