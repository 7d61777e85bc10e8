# SPDX-License-Identifier: Apache-2.0
"""A home without a far site: its controller is on the same machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gateway.init import document, services, steps
from gateway.init.controller import LocalController
from gateway.init.document import AGENTS, API, HOME, JOIN
from gateway.init.facts import HomeFacts
from gateway.init.home import HomeInit
from gateway.init.made import Change, Places
from gateway.init.services import AGENT, BRIDGE, CONTROLLER, LAN, Opening, Systemd

UNITS = (CONTROLLER, BRIDGE, LAN, AGENT)


class AloneInit(HomeInit):
    def __init__(self, places: Places, systemd: Systemd) -> None:
        super().__init__(places, systemd)
        self._controller = LocalController()
        if not self._made:
            steps.refuse_taken((API, AGENTS, JOIN), ())

    def is_done(self) -> bool:
        """Return whether this machine's agent is connected to its controller already."""
        return bool(self._made) and HOME in self._controller.connected()

    def plan(self, chosen: HomeFacts, *_: Any) -> Iterator[str]:
        uplinks = ", ".join(f"{name} ({device})" for name, device in chosen.uplinks)
        yield f"would use the uplinks {uplinks}, the first one preferred"
        yield f"would serve {chosen.network} at {chosen.lan}"
        yield f"would write {self._places.gateway} and {self._places.defaults}"
        if services.is_tree():
            yield f"would copy the units of bicast to {self._places.units}"
        yield f"would create the bridge br-home with datapath {chosen.datapath}"
        yield f"would enable and start {', '.join(UNITS)}"

    def begin(self, chosen: HomeFacts, report: Callable[[Change], None]) -> None:
        steps.carry_out(self._own_changes(chosen), report)

    def _own_changes(self, chosen: HomeFacts) -> Iterator[Change]:
        places, made, systemd = self._places, self._made, self._systemd
        files = list(steps.configuration(places, made, document.text_alone(chosen), HOME))
        yield from files
        yield from services.units(places, made, systemd, UNITS, tls=False)
        own = (chosen.lan, "br-home", "up-*", f"{document.LAN_PORT}*")
        yield from services.unmanaged(places, made, own)
        yield from steps.bridged(places, HOME)
        inside = [f"{port}-h" for port in (document.LAN_PORT, *document.ports_alone(chosen))]
        yield from services.opened(made, [Opening(device=each) for each in (chosen.lan, *inside)])
        again = any(each.act for each in files)
        yield from services.running(made, systemd, (CONTROLLER, BRIDGE, LAN), again=again)
        yield from self._controller.own_agent(places, made, systemd, HOME, f"127.0.0.1:{JOIN}")
