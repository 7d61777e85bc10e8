# SPDX-License-Identifier: Apache-2.0
"""The real core on the wire, for a gateway with one terminal. The test is its clock."""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.core import Core
from controller.edges.config import load
from controller.model.known import Wanted
from controller.protocol.switch_messages import (
    Apply,
    Effect,
    Read,
    SwitchApplied,
    SwitchEvent,
    SwitchRead,
    SwitchRefused,
)
from controller.switches.pacing import EVERY_S
from controller.switches.switch import Switch
from tests.controller.edges.openflow.conftest import WireRecorder

DPID = 0xC0
GATEWAY = """
sites:
  home:
    dpid: "00000000000000c0"
    uplinks:
      wifi:
        port: own1
        mac: "02:00:00:00:01:01"
        addresses: [172.16.1.2/24, "fd00:a1::2/64"]
        next_hops:
          - {address: 172.16.1.1, mac: "02:00:00:00:02:01"}
          - {address: "fd00:a1::1", mac: "02:00:00:00:02:01"}
    subnets:
      lan: {gateways: [10.0.0.1/24, "fd00:1::1/64"], mac: "02:00:00:00:03:01"}
    terminals:
      phone:
        addresses:
          - {address: 10.0.0.7, port: own2, mac: "02:00:00:00:04:07"}
          - {address: "fd00:1::7", port: own2, mac: "02:00:00:00:04:07"}
"""


class CoreOnWire:
    """The real core connected to the wire, with a clock that the test sets."""

    def __init__(self, recorder: WireRecorder) -> None:
        self._desk = recorder
        self._now = 0.0
        self._core = Core(load.parse(GATEWAY), Wanted(), self._now)

    @property
    def switch(self) -> Switch:
        (switch,) = self._core.switches.values()
        return switch

    def on_event(self, event: SwitchEvent) -> None:
        self._carry_out(self._core.handle(event, self._now))

    def look(self) -> None:
        self._now += EVERY_S
        self._carry_out(self._core.tick(self._now))

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        """Perform the effects and their consequences until no order is in flight."""
        waited_for = self._perform(effects)
        while waited_for:
            said = self._desk.wait(SwitchRead | SwitchApplied | SwitchRefused)
            if not (isinstance(said, SwitchRefused) and said.change):
                waited_for.discard(said.ticket)
            waited_for |= self._perform(self._core.handle(said, self._now))

    def _perform(self, effects: Iterable[Effect]) -> set[int | None]:
        orders = list(effects)
        for order in orders:
            self._desk.perform(order)
        return {order.ticket for order in orders if isinstance(order, Read | Apply)}
