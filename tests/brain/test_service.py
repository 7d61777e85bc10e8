"""The core's thread keeps time whatever is thrown at it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller import service
from controller.core import Core
from controller.events import Effect, SwitchClosed
from controller.store import Store
from tests.brain import sites


def test_a_flood_of_events_does_not_stop_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = threading.Semaphore(0)

    def tick(_core: Core, _now: float) -> Iterator[Effect]:
        ticks.release()
        return iter(())

    monkeypatch.setattr(service, "TICK_S", 0.01)
    monkeypatch.setattr(Core, "tick", tick)
    config = sites.loaded(sites.document())
    core = service.Service("gateway.yaml", config, Store(str(tmp_path / "state.json")), lambda _effect: None)

    def flood(_core: Core, event: SwitchClosed, _now: float) -> Iterator[Effect]:
        core.post(event)  # there is always another one waiting
        return iter(())

    monkeypatch.setattr(Core, "handle", flood)
    core.post(SwitchClosed(1))
    core.start()
    for _ in range(3):
        assert ticks.acquire(timeout=5)
    core.stop()
