# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import pytest

from cli import OK
from cli.__main__ import main
from controller.edges.http.server import Serving
from tests.controller.edges.http.conftest import fake_core as fake_core
from tests.controller.edges.http.conftest import fake_enroller as fake_enroller
from tests.controller.edges.http.conftest import serving as serving
from tests.controller.edges.http.conftest import shared as shared
from tests.controller.edges.http.conftest import shared_enroller as shared_enroller
from tests.controller.edges.http.fake_core import TOKEN, FakeCore

Printed = Callable[..., str]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Return a function that runs a command, which must succeed, and returns the output since the last call."""

    def run(*words: str) -> str:
        assert main([*words]) == OK
        return capsys.readouterr().out

    return run


@pytest.fixture
def api(serving: Serving, fake_core: FakeCore, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a running controller. The environment names it to the verbs."""
    monkeypatch.setenv("BICAST_API", str(serving.endpoint))
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:3128")
    monkeypatch.setenv("BICAST_TOKEN", TOKEN)
    return str(serving.endpoint)
