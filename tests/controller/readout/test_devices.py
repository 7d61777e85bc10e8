# SPDX-License-Identifier: Apache-2.0
"""The snapshot lists the devices of a LAN with the terminals whose modes apply to them."""

from __future__ import annotations

from dataclasses import replace

from controller.protocol.reports import LanDevice, Reported, Role
from controller.readout.build import snapshot
from controller.readout.snapshot import DeviceView
from tests.controller import sites
from tests.controller.pair import CoreAndSwitch
from tests.controller.program.test_lan import CONSOLE, GUEST, document, ports
from tests.fakes.host import FakeHost
from tests.fakes.switch import FakeSwitch


class FakeHome(FakeHost):
    """The agent of a gateway whose host serves a LAN."""

    devices: tuple[LanDevice, ...] = ()

    def report(self, interval_ms: int = 1000) -> Reported:
        return replace(super().report(interval_ms), devices=self.devices)


def devices(*reported: LanDevice) -> tuple[DeviceView, ...]:
    written = document()
    written["controller"] = {"agents": {}}
    config = sites.loaded(written)
    pair = CoreAndSwitch(config, [FakeSwitch(ports(site), dpid=site.dpid) for site in config.sites])
    home = FakeHome("home", Role.GATEWAY, (), [])
    home.devices = reported
    pair.join(home)
    pair.drain()
    pair.second()
    return snapshot(pair.core, "gateway.yaml", "0", pair.now, 0.0).devices


def test_devices_have_the_terminal_of_their_entry_or_the_lans() -> None:
    found = devices(LanDevice("tablet", GUEST, "02:00:00:00:08:01"), LanDevice("", CONSOLE, "08:00:27:5d:01:9e"))
    assert found == (
        DeviceView("tablet", GUEST, "02:00:00:00:08:01", "home", "lan"),
        DeviceView("", CONSOLE, "08:00:27:5d:01:9e", "home", "console"),
    )


def test_devices_outside_the_lan_are_not_listed() -> None:
    assert devices(LanDevice("liar", "198.51.100.7", "02:00:00:00:08:03"), LanDevice("six", "2001:db8::1", "")) == ()
