# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from controller.edges.http import access_control
from controller.edges.http.app import make_app
from controller.edges.http.server import Serving, serve
from tests.controller.edges.http.desk import BEARER, SETTINGS, TOKEN, FakeCore
from tests.controller.edges.http.front import FakeEnroller


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests without the token in one test do not count against the next."""
    monkeypatch.setattr(access_control, "REFUSALS_EACH_S", 10**6)


@pytest.fixture(scope="session")
def shared() -> FakeCore:
    return FakeCore()


@pytest.fixture
def desk(shared: FakeCore) -> Iterator[FakeCore]:
    """The core behind both servers, reset before and after each test."""
    yield shared
    shared.reset()


@pytest.fixture(scope="session")
def shared_front() -> FakeEnroller:
    return FakeEnroller()


@pytest.fixture
def front(shared_front: FakeEnroller) -> Iterator[FakeEnroller]:
    """The enrolment behind both servers, reset before and after each test."""
    yield shared_front
    shared_front.reset()


@pytest.fixture(scope="session")
def serving(shared: FakeCore, shared_front: FakeEnroller) -> Iterator[Serving]:
    """A real server on loopback."""
    app = make_app(shared.read, shared.program, shared.decisions, shared, TOKEN, shared_front)
    running = serve(app, SETTINGS)
    yield running
    running.stop()


@pytest.fixture
def http(serving: Serving, desk: FakeCore, front: FakeEnroller) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{serving.endpoint}", headers=BEARER, trust_env=False) as client:
        yield client
