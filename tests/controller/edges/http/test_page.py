# SPDX-License-Identifier: Apache-2.0
"""The page's files, the sessions of browsers, and the attacks on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.edges.http.page import web_files
from controller.edges.http.server import Serving
from controller.edges.http.sessions import CODE_VALID_S, MOST_SESSIONS, SESSION_VALID_S, Access, Secrets, Sessions
from tests.controller.edges.http.conftest import problem
from tests.controller.edges.http.fake_core import START, FakeCore
from tests.system.evidence import PATIENCE_S

SESSION = "/api/v1/page/session"
OFF = {"mode": "off"}
NOW = 1_800_000_000.0


class Browser(httpx.Client):
    """A browser on our page: it sends Origin with each method that may change something."""

    def __init__(self, serving: Serving) -> None:
        host = f"127.0.0.1:{serving.endpoint.port}"
        super().__init__(base_url=f"http://{host}", trust_env=False, timeout=PATIENCE_S)
        self.origin = f"http://{host}"
        self.key = ""

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        sent = {"X-Bicast-Key": self.key, "Origin": self.origin, **headers}
        return self.request(method, path, json=body, headers={name: each for name, each in sent.items() if each})

    def sign_in(self, link: str) -> httpx.Response:
        answer = self.ask("POST", SESSION, {"code": link})
        if answer.status_code == 200:
            self.key = answer.json()["key"]
        return answer


@pytest.fixture
def browser(serving: Serving, fake_core: FakeCore) -> Iterator[Browser]:
    with Browser(serving) as one:
        yield one


@pytest.fixture
def link(http: httpx.Client) -> Callable[..., str]:
    def made(access: str = "operate") -> str:
        code: str = http.post("/api/v1/page/links", json={"access": access}).json()["code"]
        return code

    return made


def test_page_is_served_whole_to_a_browser_without_a_session(browser: Browser) -> None:
    for path, file in web_files().items():
        answer = browser.get(path)
        assert answer.content == file.content
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert browser.get(path, headers={"If-None-Match": answer.headers["etag"]}).status_code == 304


def test_page_is_small_and_fetches_nothing_from_elsewhere() -> None:
    files = web_files()
    assert sum(len(each.content) for each in files.values()) < 150_000
    own = {path: each.content.decode() for path, each in files.items() if path != "/preact.js"}
    assert [path for path, text in own.items() if "http:" in text or "https:" in text or "//cdn" in text] == []
    assert [path for path, text in own.items() if " style=" in text or "innerHTML" in text] == []


def test_link_signs_one_browser_in_once(browser: Browser, serving: Serving, link: Callable[..., str]) -> None:
    code = link()
    answer = browser.sign_in(code)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert browser.ask("GET", SESSION).json()["access"] == "operate"
    assert browser.ask("PUT", "/api/v1/terminals/client/mode", OFF).json()["changed"]
    with Browser(serving) as other:
        problem(other.sign_in(code), 403)
        problem(other.ask("GET", SESSION), 401)


def test_cookie_or_key_alone_is_refused(browser: Browser, serving: Serving, link: Callable[..., str]) -> None:
    browser.sign_in(link())
    with Browser(serving) as thief:
        thief.key = browser.key
        problem(thief.ask("GET", SESSION), 401)
        thief.cookies, thief.key = browser.cookies, ""
        problem(thief.ask("GET", SESSION), 401)
        thief.key = "0" * len(browser.key)
        problem(thief.ask("GET", SESSION), 401)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8653", "192.0.2.1", "[::1", "a@b"])
def test_request_under_another_name_is_refused(
    browser: Browser, link: Callable[..., str], fake_core: FakeCore, host: str
) -> None:
    """DNS rebinding: the attacker's name resolves to our address, and the browser takes the page as the attacker's."""
    browser.sign_in(link())
    origin = f"http://{host}"
    problem(browser.ask("GET", "/", Host=host), 421)
    problem(browser.ask("POST", SESSION, {"code": link()}, Host=host, Origin=origin), 421)
    problem(browser.ask("PUT", "/api/v1/mode", OFF, Host=host, Origin=origin), 421)
    assert fake_core.snapshot is START


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", "null", "", "https://127.0.0.1"])
def test_request_of_another_page_is_refused(
    browser: Browser, link: Callable[..., str], fake_core: FakeCore, origin: str
) -> None:
    """CSRF: another site's page sends the request, also one on another port of this machine."""
    browser.sign_in(link())
    problem(browser.ask("PUT", "/api/v1/mode", OFF, Origin=origin), 403)
    problem(browser.ask("POST", SESSION, {"code": link()}, Origin=origin), 403)
    assert fake_core.snapshot is START


def test_read_only_session_changes_nothing(browser: Browser, link: Callable[..., str], fake_core: FakeCore) -> None:
    browser.sign_in(link("read"))
    assert browser.ask("GET", "/api/v1/status").status_code == 200
    problem(browser.ask("PUT", "/api/v1/mode", OFF), 403)
    problem(browser.ask("POST", "/api/v1/page/links", {"access": "operate"}), 403)
    problem(browser.ask("DELETE", "/api/v1/page/sessions"), 403)
    assert fake_core.snapshot is START
    assert browser.ask("DELETE", SESSION).json() == {"sessions": 1}


def test_signing_out_ends_the_session(browser: Browser, http: httpx.Client, link: Callable[..., str]) -> None:
    browser.sign_in(link())
    browser.ask("DELETE", SESSION)
    problem(browser.ask("GET", SESSION), 401)
    browser.sign_in(link())
    assert http.get("/api/v1/page/sessions").json()[-1]["opened_by"] == "root"
    assert http.delete("/api/v1/page/sessions").json()["sessions"] >= 1
    problem(browser.ask("GET", SESSION), 401)
    problem(http.get(SESSION), 409)


def headers(own: Secrets) -> dict[str, str]:
    return {"cookie": f"other=1; bicast-session={own.cookie}", "x-bicast-key": own.key}


def test_session_survives_a_restart_and_its_file_opens_none(tmp_path: Path) -> None:
    path = tmp_path / "state.json.sessions"
    before = Sessions(path)
    opened = before.open(before.code(Access.READ, "root", NOW), NOW)
    assert opened is not None
    session, own = opened
    assert path.stat().st_mode & 0o777 == 0o600
    assert own.cookie not in path.read_text()
    assert own.key not in path.read_text()
    after = Sessions(path)
    assert after.find(headers(own), NOW + 1) == session
    assert after.find(headers(own), NOW + SESSION_VALID_S) is None
    after.close(lambda each: True)
    assert Sessions(path).list(NOW) == ()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 9, "sessions": []}', '{"version": 1, "sessions": [{}]}'])
def test_unusable_file_signs_everybody_out(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sessions"
    path.write_text(text)
    assert Sessions(path).list(NOW) == ()


def test_code_expires(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "sessions")
    assert sessions.open(sessions.code(Access.READ, "root", NOW), NOW + CODE_VALID_S) is None


def test_oldest_session_makes_room(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "sessions")
    for _ in range(MOST_SESSIONS + 3):
        assert sessions.open(sessions.code(Access.OPERATE, "root", NOW), NOW) is not None
    numbers = [each.number for each in sessions.list(NOW)]
    assert numbers == list(range(4, MOST_SESSIONS + 4))
    assert len(json.loads((tmp_path / "sessions").read_text())["sessions"]) == MOST_SESSIONS
