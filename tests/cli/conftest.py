# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from controller.edges.http.server import Serving
from tests.controller.edges.http.conftest import fake_core as fake_core
from tests.controller.edges.http.conftest import fake_enroller as fake_enroller
from tests.controller.edges.http.conftest import serving as serving
from tests.controller.edges.http.conftest import shared as shared
from tests.controller.edges.http.conftest import shared_enroller as shared_enroller
from tests.controller.edges.http.fake_core import TOKEN, FakeCore


@pytest.fixture
def api(serving: Serving, fake_core: FakeCore, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a running controller. The environment names it to the verbs."""
    monkeypatch.setenv("BICAST_API", str(serving.endpoint))
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:3128")
    monkeypatch.setenv("BICAST_TOKEN", TOKEN)
    return str(serving.endpoint)
