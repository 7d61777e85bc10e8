# SPDX-License-Identifier: Apache-2.0
"""Enrolment of agents in memory: the phone is connected, the laptop is revoked."""

from __future__ import annotations

import re
import threading
from dataclasses import replace

from controller.protocol.enrolment import EnrolledView, EnrolmentState, Invited, UnknownAgent, of_agent
from controller.protocol.reports import Role
from controller.protocol.requests import Impossible, OverrideResult

INVITED = EnrolledView("nobody", EnrolmentState.INVITED, None, None, None, None, None, None)
PHONE = replace(
    INVITED, name="phone", standing=EnrolmentState.CONNECTED, peer="192.0.2.7:50000",
    certificate_until=2_000_000_000.0, role=Role.TERMINAL, terminal="phone",
)  # fmt: skip
LAPTOP = replace(
    INVITED, name="laptop", standing=EnrolmentState.REVOKED, revoked_at=1_700_000_000.0, tried_at=1_700_086_400.0,
    tried_from="192.0.2.8:50000",
)  # fmt: skip


class FakeEnroller:
    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.known = {one.name: one for one in (LAPTOP, PHONE)}
        self.join = "192.0.2.1:8656"

    def invite(self, name: str, role: Role | None = None, terminal: str | None = None) -> Invited:
        with self._one_at_a_time:
            if not re.fullmatch("[a-z0-9][a-z0-9-]{0,62}", name):
                raise Impossible(f"{name[:80]!r} is not a valid name for an agent")
            before = self.known.get(name, replace(INVITED, name=name))
            self.known[name] = replace(before, token_until=1_700_000_900.0)
            bound = of_agent(name, role or Role.TERMINAL, terminal)
            return Invited(name, "secret.pin", 1_700_000_900.0, self.join, bound.role, bound.terminal)

    def withdraw(self, name: str) -> OverrideResult:
        with self._one_at_a_time:
            before = self._known(name)
            if before.token_until is None:
                return OverrideResult((f"{name} has no unused token",), False, 0)
            self.known[name] = replace(before, token_until=None)
            return OverrideResult((f"the token of {name} is withdrawn",), True, 0)

    def revoke(self, name: str) -> OverrideResult:
        with self._one_at_a_time:
            self._known(name)
            if self.known[name].revoked_at is not None:
                return OverrideResult((f"{name} is already revoked",), False, 0)
            self.known[name] = replace(
                self.known[name], standing=EnrolmentState.REVOKED, peer=None, revoked_at=1_700_000_001.0
            )
            return OverrideResult((f"{name} is revoked",), True, 0)

    def _known(self, name: str) -> EnrolledView:
        if name not in self.known:
            raise UnknownAgent(f"no agent is named {name!r}; there are: laptop, phone")
        return self.known[name]

    def enrolled(self) -> tuple[EnrolledView, ...]:
        return tuple(self.known[name] for name in sorted(self.known))

    def refusals(self) -> dict[str, int]:
        return {"token_used": 3, "handshake": 0}
