# SPDX-License-Identifier: Apache-2.0
"""A window cap on the page, while it is held and after its upload has ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.page.browser import Browser
from tests.page.conftest import signed_in
from tests.system.shared_air import CONTROL, AccessPointLab, shared

pytestmark = pytest.mark.usefixtures("quiet_console")


@pytest.fixture(scope="module")
def air(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccessPointLab]:
    with shared(tmp_path_factory.mktemp("air")) as raised:
        yield raised


@pytest.fixture(scope="module")
def browser(air: AccessPointLab) -> Iterator[Browser]:
    with signed_in(air.controller) as one:
        yield one


def test_held_cap_is_shown_with_its_figures(browser: Browser, air: AccessPointLab) -> None:
    browser.choose("t1")
    with air.held_uploads(t1=CONTROL):
        most = air.bounds("t1")[1]
        browser.await_text("for 1 connection, held", "aside dl")
        browser.await_text("segments", "aside dl")
        assert most > 1
        browser.picture("cap")
    browser.await_that(lambda: "for 1 connection" not in browser.text("aside dl"), "the cap has ended")
