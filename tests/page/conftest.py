# SPDX-License-Identifier: Apache-2.0
"""The page in Chromium, against a laboratory with real traffic.

`make page-test` collects these tests. Elsewhere they are not collected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.laboratories.two_paths import Laboratory, laboratory
from lab.processes.agents import SETTINGS, TERMINAL, AgentProcess, agent
from lab.results import RESULTS
from lab.traffic.streaming import streaming
from topologies.paper import SERVER

collect_ignore_glob = [] if "BICAST_AXE" in os.environ else ["browser.py", "test_*.py"]
if not collect_ignore_glob:
    from tests.page.browser import Browser

PACE = ("8000000", "cubic")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """A client with Wi-Fi and LTE that uploads all the time."""
    with laboratory(tmp_path_factory.mktemp("logs"), SETTINGS) as raised:
        yield raised


@pytest.fixture(scope="module")
def speaker(lab: Laboratory) -> Iterator[AgentProcess]:
    with (
        agent(lab.controller, lab.client, TERMINAL, "terminal") as running,
        streaming(lab.server, lab.client, SERVER, upload=True, pace=PACE) as stream,
    ):
        stream.await_flowing()
        running.await_seeing()
        yield running


@pytest.fixture(scope="module")
def browser(lab: Laboratory, speaker: AgentProcess) -> Iterator[Browser]:
    """A browser that is signed in once, for all tests of the module."""
    folder = RESULTS / "page"
    folder.mkdir(parents=True, exist_ok=True)
    with Browser(Path(os.environ["BICAST_AXE"]), folder) as one:
        one.open(lab.controller.client.page_link("operate"))
        yield one


@pytest.fixture(autouse=True)
def as_configured(lab: Laboratory) -> Iterator[None]:
    """Take each test's overrides back."""
    yield
    lab.controller.client.set_mode(TERMINAL, "file")
    lab.controller.client.set_active(TERMINAL, "auto")
