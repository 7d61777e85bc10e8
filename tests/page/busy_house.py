# SPDX-License-Identifier: Apache-2.0
"""A controller whose devices all have traffic: every counter changes each second, the most that a page must follow.

python -m tests.page.busy_house DEVICES      serves until its standard input ends; prints its address
"""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from itertools import count

from controller.edges.http.app import make_app
from controller.edges.http.server import serve
from controller.model.config import Mode
from controller.policy.paths.health import UplinkHealth
from controller.program.program import PacketCounters, PortCounters
from controller.readout.snapshot import DeviceView, HealthView, Snapshot, TerminalView
from tests.controller.edges.http.fake_core import HOME, SETTINGS, START, TOKEN, TOKYO, FakeCore

SINCE = 1.7e9
FAR = replace(HOME, name="far", uplinks=(), peer_site="home")


def terminal(number: int) -> TerminalView:
    wifi = UplinkHealth.LOSSY if number % 3 else UplinkHealth.DEAD
    judged = (("wifi", wifi, 12), ("lte", UplinkHealth.GOOD, 0))
    return replace(
        START.terminals[0],
        name=f"device-{number}",
        mode=Mode.AUTO,
        acting=Mode.BICAST if number % 2 else Mode.SINGLE,
        active_uplink="wifi" if number % 3 else "lte",
        paths=tuple(HealthView(name, health, f"{lost}% of 300 segments", SINCE, ()) for name, health, lost in judged),
    )


def after(seconds: int, terminals: tuple[TerminalView, ...]) -> Snapshot:
    def counted(each_s: int) -> PacketCounters:
        return PacketCounters(seconds, seconds * each_s)

    carried = PortCounters(counted(400_000), counted(30_000), 0, 0)
    uplinks = tuple(replace(each, up=True, tunnel=None, counters=carried) for each in HOME.uplinks)
    home = replace(HOME, uplinks=uplinks, peer_site="far", conflicts=())
    busy = tuple(replace(each, sent=counted(20_000), received=counted(400_000)) for each in terminals)
    served = tuple(DeviceView("tablet", "192.168.8.57", "02:00:00:00:08:01", "home", each.name) for each in busy[-1:])
    return replace(START, gateways=(home, FAR), relays=(TOKYO,), terminals=busy, devices=served)


def main(devices: int) -> None:
    core, terminals = FakeCore(), tuple(map(terminal, range(devices)))
    core.snapshot = after(0, terminals)
    running = serve(make_app(core.read, core.program, core.decisions, core, TOKEN), SETTINGS)
    print(running.url, flush=True)
    ended = threading.Event()

    def await_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=await_end, daemon=True).start()
    for seconds in count(1):
        if ended.wait(1):
            break
        core.snapshot = after(seconds, terminals)
    running.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
