# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from controller.edges.http import access_control
from controller.edges.http.app import make_app
from controller.edges.http.server import Serving, serve
from tests.controller.edges.http.desk import BEARER, SETTINGS, TOKEN, Desk
from tests.controller.edges.http.front import Front


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests without the token in one test do not count against the next."""
    monkeypatch.setattr(access_control, "REFUSALS_EACH_S", 10**6)


@pytest.fixture(scope="session")
def shared() -> Desk:
    return Desk()


@pytest.fixture
def desk(shared: Desk) -> Iterator[Desk]:
    """The core behind both servers, reset before and after each test."""
    yield shared
    shared.reset()


@pytest.fixture(scope="session")
def shared_front() -> Front:
    return Front()


@pytest.fixture
def front(shared_front: Front) -> Iterator[Front]:
    """The enrolment behind both servers, reset before and after each test."""
    yield shared_front
    shared_front.reset()


@pytest.fixture(scope="session")
def serving(shared: Desk, shared_front: Front) -> Iterator[Serving]:
    """A real server on loopback."""
    app = make_app(shared.read, shared.program, shared.decisions, shared, TOKEN, shared_front)
    running = serve(app, SETTINGS)
    yield running
    running.stop()


@pytest.fixture
def http(serving: Serving, desk: Desk, front: Front) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{serving.endpoint}", headers=BEARER, trust_env=False) as client:
        yield client
