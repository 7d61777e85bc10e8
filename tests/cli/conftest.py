# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from controller.edges.http.server import Serving
from tests.controller.edges.http.conftest import desk as desk
from tests.controller.edges.http.conftest import front as front
from tests.controller.edges.http.conftest import serving as serving
from tests.controller.edges.http.conftest import shared as shared
from tests.controller.edges.http.conftest import shared_front as shared_front
from tests.controller.edges.http.desk import TOKEN, FakeCore


@pytest.fixture
def api(serving: Serving, desk: FakeCore, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a running controller. The environment names it to the verbs."""
    monkeypatch.setenv("BICAST_API", str(serving.endpoint))
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:3128")
    monkeypatch.setenv("BICAST_TOKEN", TOKEN)
    return str(serving.endpoint)
