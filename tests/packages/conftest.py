# SPDX-License-Identifier: Apache-2.0
"""The packages of build/packages, under a systemd in clean roots of their distributions.

`make packages-test` makes the roots and collects these tests. Elsewhere they are not collected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.packages.gateway import GatewayMachine, prepared
from tests.packages.release import DISTRIBUTIONS, Release
from tests.setup.place import TREE
from tests.setup.systemd import booted

collect_ignore_glob = [] if "BICAST_PREVIOUS" in os.environ else ["test_*.py"]


@pytest.fixture(params=DISTRIBUTIONS)
def distribution(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def current(distribution: str) -> Release:
    return Release(TREE / "build/packages", distribution)


@pytest.fixture
def previous(distribution: str) -> Release:
    return Release(Path(os.environ["BICAST_PREVIOUS"]), distribution)


@pytest.fixture
def machine(distribution: str) -> Iterator[GatewayMachine]:
    """Yield a machine with a gateway's ports, a phone and a server, and nothing of ours installed."""
    root = TREE / "build/roots" / f"{distribution}-amd64"
    with TemporaryDirectory(dir="/srv") as directory:  # systemd mounts a file system of its own at /tmp
        place = Path(directory)
        place.chmod(0o755)
        with booted(place, prepared(), root=root) as systemd:
            yield GatewayMachine(systemd, place)
