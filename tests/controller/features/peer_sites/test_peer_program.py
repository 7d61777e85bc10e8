# SPDX-License-Identifier: Apache-2.0
"""A mirroring site is the far end of another site's uplinks and answers over the uplinks of its terminals."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from controller.model.config import ConfigError, Mode, Site
from controller.model.in_force import Known
from controller.program.compile import compile
from tests.controller import sites
from tests.controller.sites import PORTS
from tests.fakes.packet import Packet, tcp, udp
from tests.fakes.switch import FakeSwitch

WIFI, LTE, SERVERS = (PORTS[name].number for name in ("wifi0", "lte0", "c1"))
GATEWAY_MAC = "02:00:00:00:0f:01"
SERVER = "192.168.0.2"
FAR: dict[str, Any] = {
    "dpid": "0000000000000002",
    "mirrors": "home",
    "uplinks": {
        name: {"port": f"{name}0", "addresses": [f"192.168.{net}.1/24", f"fd00:{net}::1/64"],
               "next_hops": [{"address": f"192.168.{net}.2"}, {"address": f"fd00:{net}::2"}]}
        for name, net in (("wifi", 100), ("lte", 200))
    },
    "subnets": {"servers": {"gateways": ["192.168.0.1/24", "fd00::1/64"], "mac": GATEWAY_MAC}},
    "terminals": {"server": {"addresses": [{"address": SERVER, "port": "c1"}, {"address": "fd00::2", "port": "c1"}]}},
}  # fmt: skip


def document() -> dict[str, Any]:
    written = sites.document()
    written["sites"]["far"] = deepcopy(FAR)
    return written


def far() -> Site:
    return sites.loaded(document()).sites[1]


def switch_with(known: Known) -> FakeSwitch:
    return FakeSwitch(PORTS).load(compile(far(), known))


def ready(modes: dict[str, Mode] | None = None, active: dict[str, str] | None = None) -> FakeSwitch:
    return switch_with(sites.known(far(), modes, active))


def leaves(switch: FakeSwitch, packet: Packet) -> set[int]:
    sent = switch.send(packet, SERVERS).sent
    assert len({each.port for each in sent}) == len(sent), "a port sends one copy at most"
    return {each.port for each in sent}


def to(address: str, make: Any = tcp) -> Packet:
    packet: Packet = make("fd00::2" if ":" in address else SERVER, address, eth_dst=GATEWAY_MAC)
    return packet


@pytest.mark.parametrize("address", ["192.168.110.3", "192.168.210.3", "fd00:110::3", "10.1.0.7"])
def test_packets_to_a_peer_terminal_are_copied_like_its_own(address: str) -> None:
    assert leaves(ready(), to(address)) == {WIFI, LTE}
    assert leaves(ready({"client": Mode.SINGLE, "phone": Mode.SINGLE}, {"client": "lte"}), to(address)) == {LTE}
    default = LTE if address == "10.1.0.7" else WIFI
    assert leaves(ready(), to(address, udp)) == {default}
    assert leaves(ready(active={"client": "lte"}), to(address, udp)) == {LTE}


@pytest.mark.parametrize("uplink", ["wifi0", "lte0"])
def test_packet_from_an_uplink_is_not_sent_back(uplink: str) -> None:
    port = PORTS[uplink]
    assert not ready().send(tcp("203.0.113.9", "192.168.110.3", eth_dst=port.mac), port.number).sent


def test_off_reaches_each_address_by_its_own_uplink() -> None:
    switch = ready({"client": Mode.OFF, "phone": Mode.OFF}, {"client": "lte"})
    assert leaves(switch, to("192.168.110.3")) == {WIFI}
    assert leaves(switch, to("192.168.210.3")) == {LTE}
    assert leaves(switch, to("10.1.0.7")) == {LTE}


def claim_a_terminals_subnet(far: dict[str, Any]) -> None:
    far["subnets"]["more"] = {"gateways": ["192.168.110.1/24"]}


def speak_ipv4_alone(far: dict[str, Any]) -> None:
    for uplink in far["uplinks"].values():
        uplink["addresses"].pop()
        uplink["next_hops"].pop()
    far["subnets"]["servers"]["gateways"].pop()
    far["terminals"]["server"]["addresses"].pop()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda far: far.update(mirrors="hom"), "another site of this file, such as home"),
        (lambda far: far.update(mirrors="far"), "another site of this file, such as home"),
        (lambda far: far["uplinks"].pop("lte"), "a site with the same uplinks, wifi: home has lte, wifi"),
        (claim_a_terminals_subnet, "a site with terminals outside this site's subnets: 192.168.110.3 of client"),
        (speak_ipv4_alone, "a site that the uplink wifi reaches: it has no next hop for fd00:110::3"),
    ],
)
def test_invalid_far_end_is_refused(change: Any, complaint: str) -> None:
    written = document()
    change(written["sites"]["far"])
    with pytest.raises(ConfigError, match=rf"sites\.far\.mirrors: found .*, expected {complaint}"):
        sites.loaded(written)


def test_site_is_mirrored_once_and_not_in_a_chain() -> None:
    written = document()
    again = deepcopy(FAR) | {"dpid": "0000000000000003"}
    again["terminals"] = {"other": again["terminals"]["server"]}
    written["sites"]["again"] = again
    with pytest.raises(ConfigError, match="a site that no other site mirrors: again already does"):
        sites.loaded(written)
    again["mirrors"] = "far"
    with pytest.raises(ConfigError, match="a site without `mirrors`: far mirrors home"):
        sites.loaded(written)


@pytest.mark.parametrize(("key", "value"), [("budget", "1MB/day"), ("max_share", "0.5")])
def test_copy_limits_are_configured_at_one_end(key: str, value: str) -> None:
    written = document()
    written["sites"]["home"]["uplinks"]["lte"][key] = value
    (limits,) = {uplink.limits for uplink in sites.loaded(written).sites[0].uplinks if uplink.name == "lte"}
    assert value in (str(limits.budget), str(limits.max_share))
    written["sites"]["far"]["uplinks"]["lte"][key] = value
    with pytest.raises(ConfigError, match=rf"sites\.far\.uplinks\.lte\.{key}: .* no such key: home has it"):
        sites.loaded(written)
