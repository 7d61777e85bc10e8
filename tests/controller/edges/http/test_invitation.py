# SPDX-License-Identifier: Apache-2.0
"""An invitation holds the line that a person types on the agent's host, and the line as a QR code."""

from __future__ import annotations

import httpx
import pytest

from tests.controller.edges.http.fake_enroller import FakeEnroller

FINDER = ("1111111", "1000001", "1011101", "1011101", "1011101", "1000001", "1111111")  # ISO/IEC 18004, 6.3.3


@pytest.mark.parametrize(
    ("join", "typed"),
    [
        ("192.0.2.1:8656", "192.0.2.1:8656"),
        ("[2001:db8::1]:8656", "[2001:db8::1]:8656"),
        ("0.0.0.0:8656", "ADDRESS:8656"),
        ("[::]:8656", "ADDRESS:8656"),
    ],
)
def test_line_names_an_address_that_can_be_typed(
    http: httpx.Client, fake_enroller: FakeEnroller, join: str, typed: str
) -> None:
    fake_enroller.join = join
    invited = http.post("/api/v1/agents/phone/token", json={}).json()
    assert invited["line"] == f"bicast-agent join {typed} --name phone --token secret.pin"


def test_code_is_a_square_with_finders_in_a_quiet_zone(http: httpx.Client) -> None:
    rows = http.post("/api/v1/agents/phone/token", json={}).json()["qr"]
    assert {len(each) for each in rows} == {len(rows)}
    assert {*"".join(rows[:4] + rows[-4:])} == {"0"}
    assert tuple(row[4:11] for row in rows[4:11]) == FINDER
