# SPDX-License-Identifier: Apache-2.0
"""Check the body of an error answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import httpx


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
