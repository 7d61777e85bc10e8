# SPDX-License-Identifier: Apache-2.0
"""`page`, `events` and `audit` against a real server."""

from __future__ import annotations

import httpx
import pytest

from cli.__main__ import main
from tests.cli.conftest import Printed
from tests.system.evidence import PATIENCE_S


def sign_in(link: str) -> httpx.Response:
    """Do what the page's script does with its link."""
    address, _, code = link.strip().partition("/#")
    return httpx.post(
        f"{address}/api/v1/page/session",
        json={"code": code},
        headers={"Origin": address},
        trust_env=False,
        timeout=PATIENCE_S,
    )


def test_page_prints_a_link_that_signs_one_browser_in(api: str, printed: Printed) -> None:
    link = printed("page", "--read-only")
    assert sign_in(link).json()["session"]["access"] == "read"
    assert sign_in(link).status_code == 403
    assert "may read, opened by root" in printed("page", "--sessions").splitlines()[-1]
    assert printed("page", "--sign-out").startswith("browsers signed out: ")
    assert printed("page", "--sessions") == ""


def test_audit_prints_who_changed_what(api: str, printed: Printed) -> None:
    printed("mode", "client", "single")
    first, second = printed("audit").splitlines()[:2]
    assert first.endswith("  root: client is now in mode single")
    assert second == '    PUT /api/v1/terminals/client/mode {"mode": "single"}'


def test_events_of_nothing_are_empty(api: str, printed: Printed) -> None:
    assert printed("events", "client", "--uplink", "wifi") == ""
    assert printed("events", "--json") == "[]\n"


def test_link_that_no_browser_opens_is_an_error(
    api: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("webbrowser.open", lambda link: False)
    assert main(["page", "--open"]) == 1
    out, err = capsys.readouterr()
    assert "/#" in out
    assert "has no browser" in err
