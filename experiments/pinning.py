"""A mode that holds while something is measured: wished over the API, and installed before the measurement begins."""

from __future__ import annotations

import time

from controller.edges.http.client import Client
from experiments.running import ControllerFailed

WITHIN_S = 10.0


def pin_mode(client: Client, mode: str) -> None:
    """All terminals of this controller in this mode; returns when every switch holds what that means."""
    client.set_mode("all", mode)
    deadline = time.monotonic() + WITHIN_S
    while True:
        status = client.get("status")
        states = {one["name"]: one["state"] for one in status["gateways"]}
        modes = {one["mode"] for one in status["terminals"]}
        if modes == {mode} and set(states.values()) == {"steady"}:
            return
        if time.monotonic() > deadline:
            raise ControllerFailed(
                f"mode {mode} is not in force {WITHIN_S:.0f} s after it was wished: modes {sorted(modes)}, gateways "
                f"{states}; see what the controller says of them in its status"
            )
