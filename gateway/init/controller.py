# SPDX-License-Identifier: Apache-2.0
"""The controller on this machine, and the agent that joins it."""

from __future__ import annotations

import time
from collections.abc import Iterator

from controller.edges.http.client import Client, Denied, NoAnswer
from gateway.host import HostError
from gateway.init import services
from gateway.init.document import API
from gateway.init.made import Change, Made, Places
from gateway.init.services import AGENT, CONTROLLER, Systemd

API_WITHIN_S = 60.0
LOOK_EVERY_S = 0.5  # the API has no event to wait for


class LocalController:
    def __init__(self) -> None:
        self.client = Client(f"http://127.0.0.1:{API}")

    def connected(self) -> set[str]:
        """Return the names of connected agents, none without a controller."""
        try:
            return {each["name"] for each in self.client.get("status")["agents"] if each["state"] == "here"}
        except (NoAnswer, Denied):
            return set()

    def await_answer(self) -> None:
        deadline = time.monotonic() + API_WITHIN_S
        while True:
            try:
                self.client.get("status")
                return
            except NoAnswer as error:
                if time.monotonic() > deadline:
                    raise HostError(f"{error}: `journalctl -u {CONTROLLER}` says why") from error
            time.sleep(LOOK_EVERY_S)

    def own_agent(self, places: Places, made: Made, systemd: Systemd, name: str, where: str) -> Iterator[Change]:
        """Yield the steps by which this machine's agent joins at this address, and runs."""
        self.await_answer()
        joined = name in self.connected() and systemd.is_active(AGENT)

        def join() -> None:
            services.join(places, where, name, self.client.invite(name)["token"])

        yield Change(f"agent {name}", "connected" if joined else "not connected", "joined", None if joined else join)
        yield from services.running(made, systemd, (AGENT,), again=not joined)
