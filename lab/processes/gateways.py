# SPDX-License-Identifier: Apache-2.0
"""Configure gateways of any size, with all MACs given and one port for terminals."""

from __future__ import annotations

from typing import Any

UPLINKS = 2


def many(terminals: int, *, dpid: int = 1, name: str = "big", dual_stack: bool = True) -> dict[str, Any]:
    def families(ipv4: str, ipv6: str) -> list[str]:
        return [ipv4, ipv6] if dual_stack else [ipv4]

    return {
        "dpid": f"{dpid:016x}",
        "bridge": f"br{dpid}",
        "datapath": "netdev",
        "uplinks": {
            f"up{at}": {
                "port": f"{name}-u{at}",
                "mac": f"02:00:00:00:01:{at:02x}",
                "addresses": families(f"172.16.{at}.2/24", f"fd00:a{at}::2/64"),
                "next_hops": [
                    {"address": address, "mac": f"02:00:00:00:02:{at:02x}"}
                    for address in families(f"172.16.{at}.1", f"fd00:a{at}::1")
                ],
            }
            for at in range(1, UPLINKS + 1)
        },
        "subnets": {"lan": {"gateways": families("10.0.0.1/16", "fd00:1::1/64"), "mac": "02:00:00:00:03:01"}},
        "terminals": {
            f"{name}-t{at}": {
                "addresses": [
                    {"address": address, "port": f"{name}-lan", "mac": f"02:00:00:00:04:{at:02x}"}
                    for address in families(f"10.0.1.{at}", f"fd00:1::{at + 1:x}")
                ]
            }
            for at in range(1, terminals + 1)
        },
    }


def ports_of(site: dict[str, Any]) -> list[str]:
    uplinks = [uplink["port"] for uplink in site["uplinks"].values()]
    return [*uplinks, next(iter(site["terminals"].values()))["addresses"][0]["port"]]


def bridge_of(site: dict[str, Any]) -> list[str]:
    bridge = site["bridge"]
    words = ["add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type=netdev", "fail_mode=secure"]
    words += ["protocols=OpenFlow13", f"other_config:datapath-id={site['dpid']}", "other_config:disable-in-band=true"]
    for number, port in enumerate(ports_of(site), 1):
        words += ["--", "add-port", bridge, port, "--", "set", "Interface", port, "type=internal"]
        words += [f"ofport_request={number}"]
    return words
