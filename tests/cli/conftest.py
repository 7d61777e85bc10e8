from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.api import make_app
from controller.web.serving import Serving, serve
from tests.api.desk import SETTINGS, Desk


@pytest.fixture(scope="session")
def shared() -> Desk:
    return Desk()


@pytest.fixture
def desk(shared: Desk) -> Desk:
    shared.reset()
    return shared


@pytest.fixture(scope="session")
def serving(shared: Desk) -> Iterator[Serving]:
    running = serve(make_app(shared.read, shared.program, shared, SETTINGS), SETTINGS)
    yield running
    running.stop()


@pytest.fixture
def api(serving: Serving, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a real controller, as the verbs find it."""
    monkeypatch.setenv("BICAST_API", str(serving.endpoint))
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:3128")
    monkeypatch.delenv("BICAST_TOKEN", raising=False)
    return str(serving.endpoint)
