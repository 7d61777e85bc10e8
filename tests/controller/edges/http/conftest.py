# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import httpx
import pytest

from controller.edges.http import access_control
from controller.edges.http.app import make_app
from controller.edges.http.server import Serving, serve
from tests.controller.edges.http.fake_core import BEARER, SETTINGS, TOKEN, FakeCore
from tests.controller.edges.http.fake_enroller import FakeEnroller
from tests.system.evidence import PATIENCE_S


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests without the token in one test do not count against the next."""
    monkeypatch.setattr(access_control, "REFUSALS_EACH_S", 10**6)


@pytest.fixture(scope="session")
def shared() -> FakeCore:
    return FakeCore()


@pytest.fixture
def fake_core(shared: FakeCore) -> Iterator[FakeCore]:
    """The core behind both servers, reset before and after each test."""
    yield shared
    shared.reset()


@pytest.fixture(scope="session")
def shared_enroller() -> FakeEnroller:
    return FakeEnroller()


@pytest.fixture
def fake_enroller(shared_enroller: FakeEnroller) -> Iterator[FakeEnroller]:
    """The enrolment behind both servers, reset before and after each test."""
    yield shared_enroller
    shared_enroller.reset()


@pytest.fixture(scope="session")
def serving(shared: FakeCore, shared_enroller: FakeEnroller) -> Iterator[Serving]:
    """A real server on loopback."""
    app = make_app(shared.read, shared.program, shared.decisions, shared, TOKEN, shared_enroller)
    running = serve(app, SETTINGS)
    yield running
    running.stop()


@pytest.fixture
def http(serving: Serving, fake_core: FakeCore, fake_enroller: FakeEnroller) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=f"http://{serving.endpoint}", headers=BEARER, trust_env=False, timeout=PATIENCE_S
    ) as client:
        yield client


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """Check that the answer is a complete problem of RFC 9457 with this status. Return its body."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["type"] == "about:blank"
    assert body["title"] == HTTPStatus(status).phrase
    assert body["status"] == status
    assert len(body["detail"]) > 10
    assert body["instance"].startswith("/")
    return body
