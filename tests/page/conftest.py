# SPDX-License-Identifier: Apache-2.0
"""The page in Chromium, against laboratories with real traffic.

`make page-test` collects these tests. Elsewhere they are not collected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.processes.controller import Controller
from lab.results import RESULTS

collect_ignore_glob = [] if "BICAST_AXE" in os.environ else ["browser.py", "test_*.py"]
if not collect_ignore_glob:
    from tests.page.browser import Browser


@contextmanager
def signed_in(controller: Controller) -> Iterator[Browser]:
    """Yield a browser that may operate, for all tests of a module."""
    folder = RESULTS / "page"
    folder.mkdir(parents=True, exist_ok=True)
    with Browser(Path(os.environ["BICAST_AXE"]), folder) as one:
        one.open(controller.client.page_link("operate"))
        yield one


@pytest.fixture
def quiet_console(browser: Browser) -> Iterator[None]:
    """No test may leave an error in the console or send a request elsewhere."""
    browser.complaints()
    yield
    assert browser.complaints() == []
    assert browser.elsewhere() == []
