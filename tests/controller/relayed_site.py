# SPDX-License-Identifier: Apache-2.0
"""The paper's site with relaying. `phone` (in the LAN, both families) and `client` (one address per subflow subnet)
are relayed, `laptop` is not.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

from controller.model.config import Config, Mode, Site
from controller.model.in_force import InForce, Known
from controller.model.observed import Observed, Port
from controller.model.overrides import Overrides
from controller.program.compile import compile
from tests.controller import sites
from tests.fakes.switch import FakeSwitch

RELAYING: dict[str, Any] = {
    "port": "rl-home",
    "except": ["203.0.113.0/24"],
    "uplinks": {
        "wifi": {"port": "rl-wifi", "gateways": ["10.97.1.1/24", "fd00:971::1/64"]},
        "lte": {"port": "rl-lte", "gateways": ["10.97.2.1/24", "fd00:972::1/64"]},
    },
}
PORTS = sites.PORTS | {
    "rl-home": Port(6, "02:00:00:00:00:06", True),
    "rl-wifi": Port(7, "02:00:00:00:00:07", True),
    "rl-lte": Port(8, "02:00:00:00:00:08", True),
}


def document() -> dict[str, Any]:
    written = sites.document()
    home = written["sites"]["home"]
    written["controller"] = {"agents": {}}
    written["servers"] = ["frankfurt"]
    home["relaying"] = deepcopy(RELAYING)
    phone = home["terminals"]["phone"]
    for each in (phone, home["terminals"]["client"]):
        each |= {"relayed": True, "mode": "auto"}
    phone["addresses"].append({"address": "fd00:1::7", "port": "lan0"})
    home["terminals"]["laptop"] = {"mode": "auto", "addresses": [{"address": "10.1.0.8", "port": "lan0"}]}
    return written


def config() -> Config:
    return sites.loaded(document())


def site(**relaying: object) -> Site:
    found = config().sites[0]
    assert found.relaying is not None
    return replace(found, relaying=replace(found.relaying, **relaying)) if relaying else found  # type: ignore[arg-type]


def known(
    of: Site,
    modes: dict[str, Mode] | None = None,
    active: dict[str, str] | None = None,
    missing: tuple[str, ...] = (),
    down: tuple[str, ...] = (),
) -> Known:
    ports = {name: replace(port, up=name not in down) for name, port in PORTS.items() if name not in missing}
    return Known(InForce(Overrides(modes or {}, active or {})), Observed(ports, sites.learned(of)))


def switch_with(of: Site, known: Known) -> FakeSwitch:
    return FakeSwitch(PORTS).load(compile(of, known))
