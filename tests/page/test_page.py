# SPDX-License-Identifier: Apache-2.0
"""Each control is used and its effect seen on the switch; each state is seen on the page."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from experiments.laboratories.two_paths import Laboratory, laboratory
from lab.processes.agents import SETTINGS, TERMINAL, AgentProcess, agent
from lab.traffic.streaming import streaming
from tests.page.browser import DESKTOP, PHONE, Browser
from tests.page.conftest import signed_in
from tests.system.evidence import groups, until
from topologies.paper import BRIDGE, SERVER

pytestmark = pytest.mark.usefixtures("quiet_console")
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
    with signed_in(lab.controller) as one:
        yield one


@pytest.fixture(autouse=True)
def as_configured(lab: Laboratory) -> Iterator[None]:
    """Take each test's overrides back."""
    yield
    lab.controller.client.set_mode(TERMINAL, "file")
    lab.controller.client.set_active(TERMINAL, "auto")


def copying() -> bool:
    return any("type=all" in each and each.count("bucket=") > 1 for each in groups(BRIDGE))


def test_picture_shows_the_network_and_its_traffic(browser: Browser) -> None:
    for name in (TERMINAL, "home", "wifi", "lte", "Internet"):
        browser.await_text(name, "svg")
    browser.await_text("Mbit/s", "svg")
    browser.await_shown("svg .line.copies")
    browser.await_text("in sync", "svg")
    browser.choose(TERMINAL)
    browser.await_text("1 MPTCP connection at client", "aside .why")
    browser.picture("page")  # the README's


def test_mode_is_set_on_the_switch_and_undone(browser: Browser) -> None:
    browser.choose(TERMINAL)
    assert copying()
    browser.press("single", "aside")
    browser.await_text(f"{TERMINAL} is in mode single", "aside")
    assert not copying()
    browser.await_that(lambda: "copies" not in browser.text("svg"), "no copies")
    browser.press("Undo", "aside")
    browser.await_text("follows gateway.yaml", "aside")
    assert copying()


def test_active_uplink_is_set_and_explained(browser: Browser, lab: Laboratory) -> None:
    browser.choose(TERMINAL)
    browser.press("single", "aside")
    browser.press("lte", "aside")
    browser.await_text("lte, set by a person", "aside")
    browser.await_text(f"{TERMINAL} is on lte: a person chose it", "aside .why")
    assert lab.controller.client.get("terminals", TERMINAL)["active_uplink"] == "lte"
    browser.await_text("lte took over from wifi", "section[aria-label=events]")
    browser.press("auto", "aside fieldset:nth-of-type(2)")
    browser.await_text("left to policies", "aside")


def test_every_change_is_in_the_audit_list(browser: Browser) -> None:
    browser.choose(TERMINAL)
    browser.press("bicast", "aside")
    browser.await_text("mode bicast", "aside")
    browser.await_shown("details summary").click()
    browser.await_text(f"of root: {TERMINAL} is already in mode bicast", "details")
    browser.await_shown("details summary").click()


def test_dead_path_is_a_broken_line_and_an_event(browser: Browser, lab: Laboratory) -> None:
    wifi = lab.net.uplink("wifi")
    for way in (wifi.forward, wifi.backward):
        way.set(loss_percent=100.0)
    browser.await_shown("svg .line.dead")
    browser.await_text("down", "svg .node.dead")
    browser.await_text("wifi is dead", "section[aria-label=events]")
    browser.picture("dead")
    for way in (wifi.forward, wifi.backward):
        way.set(loss_percent=0.0)
    browser.await_that(lambda: not browser.text("svg .node.dead"), "the path is back")


def test_silent_agent_is_shown(browser: Browser, speaker: AgentProcess) -> None:
    speaker.signal(signal.SIGSTOP)
    browser.await_text("silent", "section[aria-label=agents]")
    speaker.signal(signal.SIGCONT)
    browser.await_text("here", "section[aria-label=agents]")


def test_agent_is_enrolled_with_one_line(browser: Browser, lab: Laboratory) -> None:
    browser.await_shown("section[aria-label=agents] input").send_keys("home")
    browser.press("Make a token", "section[aria-label=agents]")
    browser.await_text("bicast-agent join", "section[aria-label=agents]")
    assert browser.scanned("svg.code") == browser.text("section[aria-label=agents] pre")
    assert "home" in [each["name"] for each in lab.controller.client.get("agents")]
    browser.press("Undo", "section[aria-label=agents]")
    browser.await_text("the token of home is withdrawn", "section[aria-label=agents]")
    assert "home" not in [each["name"] for each in lab.controller.client.get("agents")]


def test_revoked_agent_is_enrolled_again(browser: Browser, lab: Laboratory) -> None:
    lab.controller.client.invite("home", "gateway")
    with agent(lab.controller, None, "home", "gateway"):
        browser.driver.execute_script("window.confirm = () => true")
        browser.press("Revoke home", "section[aria-label=agents]")
        browser.await_text("home is revoked; its stream", "section[aria-label=agents]")
        browser.press("Enrol again", "section[aria-label=agents]")
        browser.await_text("--name home --token", "section[aria-label=agents]")


def test_refused_configuration_is_text_and_not_markup(browser: Browser, lab: Laboratory) -> None:
    file = lab.controller.file
    good = file.read_text()
    file.write_text(good.replace("mode: bicast", "mode: '<img src=x onerror=alert(1)>'"))
    lab.controller.process.send_signal(signal.SIGHUP)
    browser.await_text("<img src=x onerror=alert(1)>", "[role=alert]")
    file.write_text(good)
    lab.controller.process.send_signal(signal.SIGHUP)
    browser.await_that(lambda: not browser.text("[role=alert]"), "the file is in force again")


def used_by_lte(lab: Laboratory) -> int:
    (gateway,) = lab.controller.client.get("status")["gateways"]
    return int(next(each["budget"]["used_bytes"] for each in gateway["uplinks"] if each["name"] == "lte"))


def test_budget_is_shown_and_reset(browser: Browser, lab: Laboratory) -> None:
    lab.controller.client.set_active(TERMINAL, "wifi")  # so that what LTE carries is copies
    file = lab.controller.file
    good = file.read_text()
    file.write_text(good.replace("        port: gw-lte\n", "        port: gw-lte\n        budget: 2MB/month\n"))
    lab.controller.process.send_signal(signal.SIGHUP)
    browser.await_text("of 2.0 MB this month", "[aria-label=budgets]")
    browser.await_text("stopped", "[aria-label=budgets]")
    browser.await_text("copies over lte stop", "section[aria-label=events]")
    browser.press("Reset the budget of lte")
    browser.await_text("has used nothing of its budget")
    used = used_by_lte(lab)
    browser.press("Undo", "main")
    browser.await_text("MB of its budget, instead of")
    assert used_by_lte(lab) > used + 0.5e6, "what was used before the reset counts again"
    file.write_text(good)
    lab.controller.process.send_signal(signal.SIGHUP)
    browser.await_that(lambda: "stopped" not in browser.text(), "the budget is gone")


def test_search_finds_a_device_by_its_address(browser: Browser) -> None:
    search = browser.await_shown("input[type=search]")
    search.send_keys("192.168.110.3")
    browser.await_text("1 of 1")
    search.send_keys("no")
    browser.await_text("0 of 1")
    search.send_keys(10 * "\b" + 10 * "\b")
    browser.await_text(TERMINAL, "table")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_everybody_can_use_the_page(browser: Browser, size: tuple[int, int], scheme: str) -> None:
    browser.choose(TERMINAL)
    browser.as_seen_on(size, scheme)
    browser.await_text("live", "header")
    browser.picture(f"{'desktop' if size == DESKTOP else 'phone'}-{scheme}")
    assert browser.barriers() == []
    browser.as_seen_on(DESKTOP, "light")


def test_page_works_by_keyboard_alone(browser: Browser) -> None:
    browser.await_shown(".close").send_keys("\n")
    browser.await_that(lambda: not browser.text("aside"), "the panel is closed")
    browser.await_shown("svg .node[role=button]").send_keys(" ")
    browser.await_text(TERMINAL, "aside h2")
    browser.driver.switch_to.active_element.send_keys("\ue00c")  # Escape
    browser.await_that(lambda: not browser.text("aside"), "the panel is closed")


def test_lost_controller_is_said_and_the_page_heals(browser: Browser, lab: Laboratory) -> None:
    lab.controller.stop()
    browser.await_text("Lost the controller", "header")
    lab.controller.start()
    lab.controller.await_steady()
    browser.await_text("live", "header")
    until(lambda: "Lost" not in browser.text("header"), "signed in still")
    browser.complaints()  # the browser reports each refused connection
