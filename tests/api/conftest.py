from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from controller.api import make_app
from controller.web.serving import Serving, serve
from tests.api.desk import SETTINGS, Desk
from tests.api.front import Front

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="session")
def shared() -> Desk:
    return Desk()


@pytest.fixture
def desk(shared: Desk) -> Iterator[Desk]:
    """The core behind both servers; it is as at the start, before and afterwards."""
    yield shared
    shared.reset()


@pytest.fixture(scope="session")
def shared_front() -> Front:
    return Front()


@pytest.fixture
def front(shared_front: Front) -> Iterator[Front]:
    """Who enrols agents for both servers; they are as at the start, before and afterwards."""
    yield shared_front
    shared_front.reset()


@pytest.fixture(scope="session")
def serving(shared: Desk, shared_front: Front) -> Iterator[Serving]:
    """A real server on loopback, with no token."""
    app = make_app(shared.read, shared.program, shared.decisions, shared, SETTINGS, shared_front)
    running = serve(app, SETTINGS)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def guarded(shared: Desk, shared_front: Front, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A real server that asks for a token."""
    file = tmp_path_factory.mktemp("guarded") / "token"
    file.write_text(TOKEN + "\n")
    settings = replace(SETTINGS, token_file=str(file))
    app = make_app(shared.read, shared.program, shared.decisions, shared, settings, shared_front)
    running = serve(app, settings)
    yield running
    running.stop()


@pytest.fixture
def http(serving: Serving, desk: Desk, front: Front) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{serving.endpoint}", trust_env=False) as client:
        yield client
