# SPDX-License-Identifier: Apache-2.0
"""Sites for tests: the paper's, and larger ones of any size."""

from __future__ import annotations

import copy
from typing import Any

import yaml

from controller.edges.config import load
from controller.model.config import Config, Mode, Site
from controller.model.in_force import InForce, Known
from controller.model.observed import Observed, Port
from controller.model.overrides import Overrides
from controller.model.traffic import Address
from tests.fakes.packet import TERMINAL_MAC

PAPER: dict[str, Any] = {
    "servers": ["relay", "relay-1"],
    "sites": {
        "home": {
            "dpid": "0000000000000001",
            "uplinks": {
                "wifi": {
                    "port": "wifi0",
                    "mac": "08:00:27:81:6b:cf",
                    "addresses": ["192.168.100.2/24", "fd00:100::2/64"],
                    "next_hops": [{"address": "192.168.100.1", "mac": "08:00:27:33:6d:a7"}, {"address": "fd00:100::1"}],
                },
                "lte": {
                    "port": "lte0",
                    "addresses": ["192.168.200.2/24", "fd00:200::2/64"],
                    "next_hops": [{"address": "192.168.200.1"}, {"address": "fd00:200::1"}],
                },
            },
            "subnets": {
                "wifi-side": {
                    "gateways": ["192.168.110.2/24", "fd00:110::2/64"],
                    "mac": "08:00:27:f9:49:62",
                    "uplink": "wifi",
                },
                "lte-side": {"gateways": ["192.168.210.2/24", "fd00:210::2/64"], "uplink": "lte"},
                "lan": {"gateways": ["10.1.0.1/24", "fd00:1::1/64"]},
            },
            "access_points": {"air": {"bandwidth_bps": "100000000"}},
            "terminals": {
                "client": {
                    "mode": "auto",
                    "access_point": "air",
                    "addresses": [
                        {"address": "192.168.110.3", "port": "c1", "mac": TERMINAL_MAC},
                        {"address": "192.168.210.3", "port": "c2", "mac": TERMINAL_MAC},
                        {"address": "fd00:110::3", "port": "c1", "mac": TERMINAL_MAC},
                    ],
                },
                "phone": {
                    "mode": "auto",
                    "default_uplink": "lte",
                    "addresses": [{"address": "10.1.0.7", "port": "lan0"}],
                },
            },
        }
    },
}

PORTS = {
    "c1": Port(1, "02:00:00:00:00:01", True),
    "c2": Port(2, "02:00:00:00:00:02", True),
    "lan0": Port(3, "02:00:00:00:00:03", True),
    "wifi0": Port(4, "02:00:00:00:00:04", True),
    "lte0": Port(5, "02:00:00:00:00:05", True),
}
PHONE_MAC, LTE_HOP_MAC, WIFI_HOP_MAC = "0a:00:00:00:00:07", "0a:00:00:00:00:c8", "08:00:27:33:6d:a7"


def document() -> dict[str, Any]:
    return copy.deepcopy(PAPER)


def loaded(written: dict[str, Any]) -> Config:
    return load.parse(yaml.safe_dump(written, sort_keys=False))


def paper_site() -> Site:
    return loaded(document()).sites[0]


def learned(site: Site) -> dict[tuple[str, Address], str]:
    """Return the MACs that are known once every neighbour has answered."""
    hops = {
        (uplink.port, hop.address): LTE_HOP_MAC for uplink in site.uplinks for hop in uplink.next_hops if not hop.mac
    }
    places = [place for terminal in site.terminals for place in terminal.addresses if not place.mac]
    return {**hops, **{(place.port, place.address): PHONE_MAC for place in places}}


def known(site: Site, modes: dict[str, Mode] | None = None, active: dict[str, str] | None = None) -> Known:
    return Known(InForce(Overrides(modes or {}, active or {})), Observed(PORTS, learned(site)))


def many(terminals: int, uplinks: int = 2, dpid: int = 1, site: str = "big") -> dict[str, Any]:
    """Return a site of any size, with every MAC configured, all terminals on one port, and both families."""
    return {
        "dpid": f"{dpid:016x}",
        "bridge": f"br{dpid}",
        "datapath": "netdev",
        "uplinks": {
            f"up{at}": {
                "port": f"{site}-u{at}"[:15],
                "mac": f"02:00:00:00:01:{at:02x}",
                "addresses": [f"172.16.{at}.2/24", f"fd00:a{at}::2/64"],
                "next_hops": [
                    {"address": f"172.16.{at}.1", "mac": f"02:00:00:00:02:{at:02x}"},
                    {"address": f"fd00:a{at}::1", "mac": f"02:00:00:00:02:{at:02x}"},
                ],
            }
            for at in range(1, uplinks + 1)
        },
        "subnets": {"lan": {"gateways": ["10.0.0.1/16", "fd00:1::1/64"], "mac": "02:00:00:00:03:01"}},
        "terminals": {
            f"{site}-t{at}": {
                "mode": "auto",
                "addresses": [
                    {"address": f"10.0.1.{at}", "port": f"{site}-lan"[:15], "mac": f"02:00:00:00:04:{at:02x}"},
                    {"address": f"fd00:1::{at + 1:x}", "port": f"{site}-lan"[:15], "mac": f"02:00:00:00:04:{at:02x}"},
                ],
            }
            for at in range(1, terminals + 1)
        },
    }
