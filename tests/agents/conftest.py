from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path / "agents")
    yield house
    house.stop()
