# SPDX-License-Identifier: Apache-2.0
"""Chromium on the page: a person's eyes and hands."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.system.evidence import PATIENCE_S

# Without the last ones Chromium looks for hosts of its maker.
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-proxy-server"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
DESKTOP, PHONE = (1280, 1000), (390, 844)
LOUD = ("SEVERE", "WARNING")


class Browser:
    def __init__(self, axe: Path, folder: Path) -> None:
        options = webdriver.ChromeOptions()
        for each in OPTIONS:
            options.add_argument(each)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        self._axe = axe.read_text()
        self._folder = folder
        self.driver.set_window_size(*DESKTOP)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.quit()

    def open(self, link: str) -> None:
        self.driver.get(link)
        self.await_text("live")

    def text(self, selector: str = "body") -> str:
        return "\n".join(each.text for each in self.driver.find_elements(By.CSS_SELECTOR, selector))

    def await_that(self, look: Callable[[], Any], what: str) -> Any:
        def found(_: object) -> Any:
            try:
                return look()
            except (NoSuchElementException, StaleElementReferenceException):
                return None

        waiting = WebDriverWait(self.driver, PATIENCE_S, poll_frequency=0.05)
        return waiting.until(found, f"{what}; the page shows: {self.text()}")

    def await_text(self, text: str, selector: str = "body") -> None:
        self.await_that(lambda: text in self.text(selector), f"{text!r} in {selector}")

    def await_shown(self, selector: str) -> WebElement:
        element: WebElement = self.await_that(lambda: self.driver.find_element(By.CSS_SELECTOR, selector), selector)
        return element

    def press(self, name: str, inside: str = "body") -> None:
        """Press the button with this text or label."""

        def button() -> WebElement | None:
            there = self.driver.find_elements(By.CSS_SELECTOR, f"{inside} button")
            return next((each for each in there if name in (each.text, each.get_attribute("aria-label"))), None)

        self.driver.execute_script("arguments[0].click()", self.await_that(button, f"button {name}"))

    def choose(self, device: str) -> None:
        self.press(device, "table")
        self.await_text(device, "aside h2")

    def as_seen_on(self, size: tuple[int, int], scheme: str) -> None:
        self.driver.set_window_size(*size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def picture(self, name: str) -> Path:
        self.driver.execute_script("scrollTo(0, 0)")
        path = self._folder / f"{name}.png"
        self.driver.save_screenshot(str(path))
        return path

    def scanned(self, selector: str) -> str:
        """Return the text of a QR code, as a scanner reads it from the screen."""
        path = self._folder / "code.png"
        code = self.await_shown(selector)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", code)
        code.screenshot(str(path))
        read = subprocess.run(["zbarimg", "--quiet", "--raw", path], stdout=subprocess.PIPE, text=True, check=True)
        return read.stdout.strip()

    def barriers(self) -> list[str]:
        """Return what axe finds that some people could not use."""
        self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": self._axe})  # the page's policy forbids a script
        found = self.driver.execute_async_script("axe.run().then(arguments[0])")
        return [
            f"{each['id']}: {each['help']} ({', '.join(str(node['target']) for node in each['nodes'])})"
            for each in found["violations"]
        ]

    def elsewhere(self) -> list[str]:
        """Return the addresses of requests that left the page's own origin."""
        names = self.driver.execute_script("return performance.getEntriesByType('resource').map((each) => each.name)")
        own = (self.driver.execute_script("return location.origin"), "data:", "blob:")
        return [each for each in names if not each.startswith(own)]

    def complaints(self) -> list[str]:
        """Return what the console has said since the last call."""
        return [each["message"] for each in self.driver.get_log("browser") if each["level"] in LOUD]
