# SPDX-License-Identifier: Apache-2.0
"""Overrides survive a restart, even if the disk was full at first."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from controller.edges.runtime import service
from controller.edges.state import files
from controller.edges.state import store as state_store
from controller.edges.state.store import Store
from controller.model.config import Mode
from tests.controller import sites

PATIENCE_S = 60.0


class FullDisk:
    """`os` with a full disk until there is room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = True
        self.refused = threading.Semaphore(0)
        self.written = threading.Event()
        self._replace = files.replace
        monkeypatch.setattr(files, "replace", self.replace)

    def replace(self, path: Path, content: bytes) -> None:
        if self.full:
            self.refused.release()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._replace(path, content)
        self.written.set()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


def _begun(store: Store) -> service.Service:
    core = service.Service("gateway.yaml", sites.loaded(sites.document()), store, lambda _effect: None)
    core.start()
    return core


def test_override_on_a_full_disk_is_saved_once_there_is_room(
    tmp_path: Path, disk: FullDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "TICK_S", 0.01)
    caplog.set_level("INFO")
    store = Store(str(tmp_path / "state.json"))
    core = _begun(store)
    try:
        assert any("No space left" in each for each in core.set_mode("client", Mode.OFF).failed)
        for _ in range(5):
            assert disk.refused.acquire(timeout=PATIENCE_S), "saving is retried"
        disk.full = False
        assert disk.written.wait(PATIENCE_S)
        assert store.load().modes["client"] is Mode.OFF
    finally:
        core.stop()
    assert sum("No space left" in each.getMessage() for each in caplog.records) == 1
    assert [each.levelname for each in caplog.records if each.name == state_store.__name__] == ["INFO"]


def test_override_on_a_full_disk_is_saved_at_a_clean_stop(
    tmp_path: Path, disk: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "TICK_S", 60.0)
    store = Store(str(tmp_path / "state.json"))
    core = _begun(store)
    assert core.set_mode("client", Mode.OFF).failed
    disk.full = False
    core.stop()
    assert store.load().modes["client"] is Mode.OFF
