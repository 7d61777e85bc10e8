# SPDX-License-Identifier: Apache-2.0
"""Revoking a name closes all its connections, including those without a session, and no others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from controller.edges.agentlink.sessions import Sessions
from controller.edges.trust.authority import Shown


@dataclass
class FakeConnection:
    certificate: Shown | None
    cut: list[float] = field(default_factory=list)

    def leave(self, within_s: float) -> None:
        self.cut.append(within_s)


def named(name: str) -> FakeConnection:
    return FakeConnection(Shown(name, "01", b"", None))


def test_revocation_closes_all_connections_of_the_name_alone() -> None:
    guests = {"a": named("phone"), "b": named("laptop"), "c": named("phone"), "d": FakeConnection(None)}
    nothing = cast(Any, None)
    Sessions(nothing, cast(Any, guests), nothing, nothing, ":8655").revoke("phone")
    assert [peer for peer, guest in guests.items() if guest.cut] == ["a", "c"]
