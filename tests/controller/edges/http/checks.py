# SPDX-License-Identifier: Apache-2.0
"""What every answer with an error must be."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import httpx


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The body, after checking that it is a whole problem of RFC 9457 with this status."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["type"] == "about:blank"
    assert body["title"] == HTTPStatus(status).phrase
    assert body["status"] == status
    assert len(body["detail"]) > 10
    assert body["instance"].startswith("/")
    return body
