from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A directory that somebody who is not root may read: tmp_path stands in one that pytest closes to others."""
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)
