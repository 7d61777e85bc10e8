# SPDX-License-Identifier: Apache-2.0
"""An access point in memory: the core, its switch, and agents that report when due and enforce their orders."""

from __future__ import annotations

from typing import Any

from controller.features.caps.view import AccessPointView, SharerView
from controller.protocol.orders import Direct
from controller.protocol.reports import Role
from controller.readout.build import snapshot
from tests.controller import sites
from tests.controller.pair import CoreAndSwitch
from tests.controller.sites import PORTS
from tests.fakes.capper import FakeCapper, FakeStream
from tests.fakes.switch import FakeSwitch

NEAR, FAR = "203.0.113.4", "203.0.113.64"
ADDRESSES = {name: f"10.1.0.{number}" for number, name in enumerate(("laptop", "tablet", "phone", "watch"), 11)}
STEP_S = 0.05


def document(rule: str = "ideal", **more: str) -> dict[str, Any]:
    """Return the paper's site with four terminals that share 20 Mbit/s."""
    written = sites.document()
    home = written["sites"]["home"]
    home["access_points"] = {"air": {"bandwidth_bps": "20000000", "rule": rule, **more}, "idle": {}}
    home["terminals"] = {"client": home["terminals"]["client"] | {"access_point": "idle"}} | {
        name: {"access_point": "air", "addresses": [{"address": address, "port": "lan0"}]}
        for name, address in ADDRESSES.items()
    }
    return written


class SharedAccessPoint(CoreAndSwitch):
    def __init__(self, written: dict[str, Any] | None = None) -> None:
        super().__init__(sites.loaded(written or document()), [FakeSwitch(PORTS)])
        self.air: list[FakeStream] = []
        self.deaf: list[Direct] = []  # orders to agents that do not answer
        self.connect()
        self.drain()

    # Agents and connections

    def sender(self, name: str, *can: str, terminal: str | None = None, **more: Any) -> FakeCapper:
        address, can = ADDRESSES[terminal or name], can or ("caps",)
        return self._agent(
            FakeCapper(name, Role.TERMINAL, (address,), self.air, self._clock, *can, terminal=terminal, **more)
        )

    def gateway(self, *can: str, name: str = "home", **more: Any) -> FakeCapper:
        return self._agent(FakeCapper(name, Role.GATEWAY, (), self.air, self._clock, *can, **more))

    def stream(self, terminal: str, other: str = NEAR, **more: int) -> FakeStream:
        self.air.append(FakeStream(ADDRESSES[terminal], other, **more))
        return self.air[-1]

    def _agent(self, agent: FakeCapper) -> FakeCapper:
        self.join(agent)
        self.drain()
        return agent

    def _clock(self) -> float:
        return self.now

    # Time

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self.now += STEP_S
            for each in self.air:
                each.pass_time(STEP_S)
            if round(self.now / STEP_S) % round(1 / STEP_S) == 0:
                self.carry(self.core.tick(self.now))
            for agent in list(self.hosts.values()):
                if isinstance(agent, FakeCapper) and agent.is_due():
                    self.tell(agent.report())
            self.drain()

    def step(self) -> bool:
        if not any(self._lines.values()):
            self.carry(self.core.rest(self.now))
        if self._to_hands:
            agent = self.hosts.get(self._to_hands[0].session)
            if isinstance(agent, FakeCapper) and not agent.answers:
                self.deaf.append(self._to_hands.popleft())
                return True
        return super().step()

    def answer(self, agent: FakeCapper) -> None:
        """Let the agent answer all earlier orders."""
        agent.answers = True
        told, self.deaf = self.deaf, []
        for direct in told:
            self.tell(agent.carry_out(direct))

    def reconfigured(self, written: dict[str, Any]) -> None:
        self.carry(self.core.reconfigure(sites.loaded(written), self.now))
        self.drain()

    # Views

    def place(self, name: str = "air") -> AccessPointView:
        places = {each.name: each for each in snapshot(self.core, "gateway.yaml", "1.2.0", self.now, 0.0).access_points}
        return places[name]

    def view(self, terminal: str) -> SharerView:
        return {each.terminal: each for each in self.place().terminals}[terminal]
