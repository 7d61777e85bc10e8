# SPDX-License-Identifier: Apache-2.0
"""A house of many devices, all of them busy: the page stays readable, and browsers cost the controller little.

The figures are in results/page/cost.txt.
"""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from controller.edges.http.client import Client
from lab.results import RESULTS
from tests.controller.edges.http.fake_core import HEAD, TOKEN
from tests.page.browser import Browser

FOLDER = RESULTS / "page"
DEVICES = (10, 250)
BROWSERS = (0, 1, 50)
MOST_OF_A_CORE = 0.10  # promised, for 50 browsers
OPENING_S, MEASURED_S = 2.0, 8.0


@dataclass(frozen=True, slots=True)
class House:
    devices: int
    url: str
    process: int

    def used_s(self) -> float:
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def follow(self) -> socket.socket:
        at = urlsplit(self.url)
        following = socket.create_connection((at.hostname, at.port))
        following.sendall(b"GET /api/v1/page/stream HTTP/1.1\r\n" + HEAD + b"\r\n")
        return following


@contextmanager
def house(devices: int) -> Iterator[House]:
    words = [sys.executable, "-m", "tests.page.busy_house", str(devices)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        yield House(devices, serving.stdout.readline().strip(), serving.pid)


def read(browsers: list[socket.socket], seconds: float) -> int:
    """Read what the controller sends to all, and return the bytes."""
    until, taken = time.monotonic() + seconds, 0
    with selectors.DefaultSelector() as ready:
        for each in browsers:
            ready.register(each, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            for key, _ in ready.select(left):
                taken += len(os.read(key.fd, 1 << 20))
    return taken


def cost(there: House, browsers: int) -> float:
    """Return the share of a core that the controller takes, and write it down."""
    with ExitStack() as stack:
        following = [stack.enter_context(there.follow()) for _ in range(browsers)]
        read(following, OPENING_S)
        before, since = there.used_s(), time.monotonic()
        taken = read(following, MEASURED_S)
        lasted = time.monotonic() - since
        share = (there.used_s() - before) / lasted
    line = f"{there.devices} devices, {browsers} browsers: {share:.1%} of a core, {taken / lasted / 1000:.0f} kB/s"
    with (FOLDER / "cost.txt").open("a", encoding="utf-8") as file:
        file.write(f"{line} (n = 1)\n")
    return share


@pytest.fixture(scope="module", autouse=True)
def figures() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "cost.txt").unlink(missing_ok=True)


@pytest.mark.parametrize("devices", DEVICES)
def test_fifty_browsers_cost_a_tenth_of_a_core_at_most(devices: int) -> None:
    with house(devices) as there:
        shares = {browsers: cost(there, browsers) for browsers in BROWSERS}
    assert shares[50] < MOST_OF_A_CORE, shares


def test_page_of_250_devices_is_readable() -> None:
    with house(250) as there, Browser(Path(os.environ["BICAST_AXE"]), FOLDER) as browser:
        browser.open(Client(there.url, TOKEN).page_link("read"))
        painted = browser.driver.execute_script(
            "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        loaded = browser.driver.execute_script(
            "return [performance.getEntriesByType('navigation')[0], ...performance.getEntriesByType('resource')]"
            ".reduce((sum, each) => sum + each.encodedBodySize, 0)"
        )
        with (FOLDER / "cost.txt").open("a", encoding="utf-8") as file:
            file.write(f"250 devices: first contentful paint after {painted:.0f} ms, {loaded / 1000:.0f} kB (n = 1)\n")
        browser.await_shown("svg .node")
        assert len(browser.driver.find_elements("css selector", "svg .node")) < 20, "devices are grouped"
        browser.picture("250-devices")
        browser.await_shown("input[type=search]").send_keys("192.168.8.57")  # of a device in its LAN
        browser.await_that(lambda: browser.text("table").count("device-") == 1, "one device is found")
        browser.choose("device-249")
        assert "tablet 192.168.8.57" in browser.text("aside")
        browser.picture("device-of-250")
        assert browser.barriers() == []
        assert browser.complaints() == []
        assert browser.elsewhere() == []
