# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import logging
import logging.handlers
import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.edges.trust import refusals
from tests.controller.edges.agentlink.fake_controller import FakeController, Log


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[[], FakeController]]:
    """Return a builder, for tests that change something first."""
    built: list[FakeController] = []

    def fake_controller() -> FakeController:
        built.append(FakeController(tmp_path / f"agents{len(built)}"))
        return built[-1]

    yield fake_controller
    for each in built:
        each.stop()


@pytest.fixture
def fake_controller(build: Callable[[], FakeController]) -> FakeController:
    return build()


@pytest.fixture
def log() -> Iterator[Log]:
    lines: Log = queue.SimpleQueue()
    handler = logging.handlers.QueueHandler(lines)  # type: ignore[arg-type]
    logging.getLogger(refusals.__name__).addHandler(handler)
    yield lines
    logging.getLogger(refusals.__name__).removeHandler(handler)
