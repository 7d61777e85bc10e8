# SPDX-License-Identifier: Apache-2.0
"""A terminal that is its own gateway, on the kernel's datapath."""

from __future__ import annotations

from typing import Any

from lab.traffic.web import web_server
from tests.system.conftest import PAPER
from tests.system.test_laptop import copies_and_receives_once
from tests.vm.conftest import home
from topologies.paper import SERVER, PaperTopo


class Laptop(PaperTopo):
    def build(self, **options: Any) -> None:  # Mininet's name
        super().build(one_machine=True, **options)


def test_a_laptop_copies_by_its_own_bridge_and_receives_once() -> None:
    with home(Laptop, PAPER) as laptop, web_server(laptop.net.machine("server"), SERVER) as web:
        copies_and_receives_once(laptop, web)
