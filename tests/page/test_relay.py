# SPDX-License-Identifier: Apache-2.0
"""A relay on the page: it is drained and resumed, and connections follow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from experiments.laboratories.home import RelayedHome, local, relayed_home
from tests.page.browser import Browser
from tests.page.conftest import signed_in
from tests.system.evidence import until

pytestmark = pytest.mark.usefixtures("quiet_console")
RELAYS = "section[aria-label=relays]"


@pytest.fixture(scope="module")
def home() -> Iterator[RelayedHome]:
    with relayed_home() as raised:
        raised.pin("television", "single", "wifi")
        yield raised


@pytest.fixture(scope="module")
def browser(home: RelayedHome) -> Iterator[Browser]:
    with signed_in(home.controller) as one:
        yield one


def test_relay_is_drained_and_undone(browser: Browser, home: RelayedHome) -> None:
    browser.await_text("tokyo", "svg")
    browser.press("Drain", RELAYS)
    browser.await_text("draining", RELAYS)
    browser.await_text("relay, draining", "svg")
    until(lambda: home.seen("television") == local("television", "wifi"), "new connections pass the relay by")
    browser.picture("relay")
    browser.press("Undo", RELAYS)
    browser.await_that(lambda: "draining" not in browser.text("svg"), "the relay takes connections")
    home.await_relayed("television", "tokyo")


def test_everybody_can_use_the_relays(browser: Browser) -> None:
    assert browser.barriers() == []
