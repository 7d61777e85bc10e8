# SPDX-License-Identifier: Apache-2.0
"""A traffic class has its own mode, which applies in both directions. No packet belongs to two classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core import overrides
from controller.model.config import Config, ConfigError, Mode
from controller.model.in_force import InForce
from controller.model.overrides import Overrides
from controller.model.redundancy import PacketUplinks
from controller.policy.paths.uplinks import way
from controller.program.compile import compile
from controller.program.diff import ModifyGroup, diff
from controller.program.matching import blocks
from controller.protocol.requests import UnknownClass
from tests.controller import sites
from tests.controller.features.peer_sites import test_peer_program
from tests.controller.pair import CoreAndSwitch
from tests.controller.sites import PORTS
from tests.fakes.fields import bits
from tests.fakes.packet import Packet, echo, sctp, tcp, udp
from tests.fakes.switch import FakeSwitch

C1, LAN, WIFI, LTE = (PORTS[name].number for name in ("c1", "lan0", "wifi0", "lte0"))
BOTH, BY_WIFI, BY_LTE = {WIFI, LTE}, {WIFI}, {LTE}
GATEWAY_MAC = "08:00:27:f9:49:62"
CALLED, CALLED6, SERVER = "203.0.113.9", "2001:db8::9", "192.168.0.2"
CLASSES: dict[str, Any] = {
    "voip": {
        "protocols": ["udp"],
        "ports": ["5060", "10000-10015"],
        "dscp": ["46"],
        "addresses": ["203.0.113.0/24", "2001:db8::/32"],
    },
    "backup-job": {"protocols": ["tcp", "sctp"], "ports": ["873"]},
    "pings": {"protocols": ["icmp"]},
}
SINGLE_AND_BICAST = {"voip": "bicast", "backup-job": "single"}


def document(
    modes: Mapping[str, str] = SINGLE_AND_BICAST, classes: Mapping[str, Any] = CLASSES, **client: str
) -> dict[str, Any]:
    written = test_peer_program.document()
    home = written["sites"]["home"]
    home["classes"] = dict(classes)
    home["terminals"]["client"] |= {"modes": dict(modes), **client}
    return written


def config(**more: Any) -> Config:
    return sites.loaded(document(**more))


def home(wishes: dict[str, Mode] | None = None, active: dict[str, str] | None = None, **more: Any) -> FakeSwitch:
    site = config(**more).sites[0]
    return FakeSwitch(PORTS).load(compile(site, sites.known(site, wishes, active)))


def ports_of(switch: FakeSwitch, packet: Packet) -> set[int]:
    sent = switch.send(packet, C1).sent
    assert len({each.port for each in sent}) == len(sent), "a port sends one copy at most"
    return {each.port for each in sent}


def call(destination: str = CALLED, port: int = 5060, dscp: int = 46) -> Packet:
    source = "fd00:110::3" if ":" in destination else "192.168.110.3"
    return replace(udp(source, destination, eth_dst=GATEWAY_MAC, udp_dst=port), ip_dscp=dscp)


def answer(source: str = CALLED, port: int = 5060, dscp: int = 46) -> Packet:
    """Return a packet that the peer site receives from its own server, sent by a callee."""
    return replace(udp(source, "192.168.110.3", eth_dst=test_peer_program.GATEWAY_MAC, udp_src=port), ip_dscp=dscp)


# Sent by the terminal


@pytest.mark.parametrize("destination", [CALLED, "203.0.113.255", CALLED6])
@pytest.mark.parametrize("port", [5060, 10000, 10007, 10015])
def test_class_in_bicast_is_copied_in_any_terminal_mode(destination: str, port: int) -> None:
    assert ports_of(home(mode="single"), call(destination, port)) == BOTH


def test_packet_that_misses_one_field_is_not_in_the_class() -> None:
    switch = home()
    from_its_port = replace(udp("192.168.110.3", CALLED, eth_dst=GATEWAY_MAC, udp_src=5060, udp_dst=99), ip_dscp=46)
    others = [*(call(port=port) for port in (5061, 9999, 10016)), *(call(dscp=dscp) for dscp in (0, 47))]
    for packet in (*others, call("203.0.114.9"), call("2001:db9::9"), from_its_port):
        assert ports_of(switch, packet) == BY_WIFI, packet


def test_class_in_single_uses_the_active_uplink_alone() -> None:
    switch = home(active={"client": "lte"})
    to = {"eth_dst": GATEWAY_MAC}
    assert ports_of(switch, tcp("192.168.110.3", SERVER, tcp_dst=873, **to)) == BY_LTE
    assert ports_of(switch, sctp("fd00:110::3", CALLED6, sctp_dst=873, **to)) == BY_LTE
    assert ports_of(switch, tcp("192.168.110.3", SERVER, tcp_dst=874, **to)) == BOTH
    assert ports_of(switch, tcp("192.168.110.3", SERVER, tcp_src=873, **to)) == BOTH


@pytest.mark.parametrize(
    ("wish", "ways"),
    [(Mode.BICAST, BOTH), (Mode.SINGLE, BY_LTE), (Mode.OFF, BY_WIFI), (Mode.AUTO, BOTH)],
    ids=list(Mode),
)
def test_class_without_a_mode_follows_its_terminal(wish: Mode, ways: set[int]) -> None:
    """Pings are not part of `bicast`, and are copied nevertheless."""
    for ping in (echo("192.168.110.3", SERVER, eth_dst=GATEWAY_MAC), echo("fd00:110::3", CALLED6, eth_dst=GATEWAY_MAC)):
        assert ports_of(home({"client": wish}, {"client": "lte"}), ping) == ways


def test_class_override_beats_the_file_and_the_terminal() -> None:
    switch = home({"client": Mode.OFF, "client/voip": Mode.SINGLE}, {"client": "lte"})
    to = {"eth_dst": GATEWAY_MAC}
    assert ports_of(switch, call()) == ports_of(switch, tcp("192.168.110.3", SERVER, tcp_dst=873, **to)) == BY_LTE
    assert ports_of(switch, echo("192.168.110.3", SERVER, **to)) == BY_WIFI


# Sent to the terminal, from a site that mirrors its own


@pytest.mark.parametrize("port", [5060, 10000, 10015])
def test_answer_from_the_ports_of_a_class_is_in_the_class(port: int) -> None:
    assert ports_of(switch_of_callers({"client": Mode.SINGLE}), answer(port=port)) == BOTH
    assert ports_of(switch_of_callers({"client/voip": Mode.SINGLE}, {"client": "lte"}), answer(port=port)) == BY_LTE
    switch = switch_of_callers({}, {"client": "lte"})
    strangers = (answer(port=5061), answer(dscp=0), replace(answer(port=99), udp_dst=5060))
    assert [ports_of(switch, packet) for packet in strangers] == [BY_LTE] * 3


def switch_of_callers(wishes: dict[str, Mode], active: dict[str, str] | None = None) -> FakeSwitch:
    """Return the switch of a peer site with the callee behind it."""
    written = document()
    end = written["sites"]["far"]
    end["subnets"]["servers"]["gateways"] = ["203.0.113.1/24", "2001:db8::1/64"]
    end["terminals"]["server"]["addresses"] = [{"address": CALLED, "port": "c1"}, {"address": CALLED6, "port": "c1"}]
    site = sites.loaded(written).sites[1]
    return FakeSwitch(PORTS).load(compile(site, sites.known(site, wishes, active)))


def test_classes_are_those_of_the_site_of_the_terminals() -> None:
    written = document()
    written["sites"]["far"]["classes"] = {"own": {"protocols": ["udp"]}}
    written["sites"]["far"]["terminals"]["server"]["modes"] = {"own": "bicast"}
    site = sites.loaded(written).sites[1]
    switch = FakeSwitch(PORTS).load(compile(site, sites.known(site)))
    own, source = test_peer_program.SERVER, {"eth_dst": test_peer_program.GATEWAY_MAC}
    assert ports_of(switch, udp(own, "192.168.110.3", **source)) == BY_WIFI, "home has no such class"
    assert ports_of(switch, udp(own, "198.51.100.7", **source)) == BOTH, "the destination is not at home"
    assert ports_of(switch, tcp(own, "192.168.110.3", tcp_src=873, **source)) == BY_WIFI


# Blocks of ports


ports = st.integers(1, 65535)
ranges = st.lists(st.tuples(ports, ports).map(lambda ends: range(min(ends), max(ends) + 1)), min_size=1, max_size=4)


@given(ranges, st.lists(ports, max_size=20))
def test_blocks_cover_each_port_of_their_ranges_once(given_: list[range], others: list[int]) -> None:
    masks = [bits("udp_dst", block) for block in blocks(given_)]
    for port in {*others, *(each[at] for each in given_ for at in (0, -1)), *(each.start - 1 for each in given_)}:
        holding = sum(port & mask == value for value, mask in masks)
        assert holding == any(port in each for each in given_)


# Configuration


def refused(classes: Mapping[str, Any], modes: Mapping[str, str] | None = None) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        config(classes=classes, modes=modes or {})
    return caught.value


REFUSED: list[tuple[Any, str, str]] = [
    ({"x": {}}, "x", "at least one of the keys protocols, ports, dscp, addresses"),
    ({"x y": {"protocols": ["udp"]}}, "x y", "a name of letters"),
    ({"bicast": {"protocols": ["udp"]}}, "bicast", "another name"),
    ({f"x{at}": {"dscp": [str(at)]} for at in range(17)}, "", "at most 16 classes"),
    ({"x": {"protocols": []}}, "x.protocols", "different values"),
    ({"x": {"protocols": ["udp", "udp"]}}, "x.protocols", "different values"),
    ({"x": {"ports": ["5060"]}}, "x.ports", "`protocols` beside it with tcp, udp, sctp"),
    ({"x": {"protocols": ["udp", "icmp"], "ports": ["5060"]}}, "x.ports", "other protocols have no ports"),
    ({"x": {"protocols": ["udp"], "ports": ["0"]}}, "x.ports[0]", "a port from 1 to 65535"),
    ({"x": {"protocols": ["udp"], "ports": ["20-10"]}}, "x.ports[0]", "the lower one first"),
    ({"x": {"protocols": ["udp"], "ports": ["sip"]}}, "x.ports[0]", "a port from 1 to 65535"),
    ({"x": {"protocols": ["udp"], "ports": [str(at) for at in range(1, 18)]}}, "x.ports", "at most 16 values"),
    ({"x": {"dscp": ["64"]}}, "x.dscp[0]", "a whole number from 0 to 63"),
    ({"x": {"addresses": ["203.0.113.1/24"]}}, "x.addresses[0]", "no host bits set"),
    ({"x": {"addresses": ["0.0.0.0/0"]}}, "x.addresses[0]", "a prefix length of 1 or more"),
    ({"x": {"addresses": ["224.0.1.0/24"]}}, "x.addresses[0]", "addresses in 224.0.0.0/4 are not routed"),
    ({"x": {"addresses": ["fd00::1%wifi0"]}}, "x.addresses[0]", "an address, or the network"),
]  # fmt: skip


@pytest.mark.parametrize(("classes", "where", "expected"), REFUSED)
def test_invalid_class_is_refused_with_place_and_expectation(classes: Any, where: str, expected: str) -> None:
    error = refused(classes)
    assert error.where == f"sites.home.classes.{where}".removesuffix(".")
    assert expected in error.expected


SIP = {"protocols": ["udp"], "ports": ["5060-5070"]}


@pytest.mark.parametrize(
    ("second", "shared"),
    [
        ({"protocols": ["udp"]}, "udp port 5060-5070"),
        ({"protocols": ["tcp", "udp"], "ports": ["80", "5070-6000"]}, "udp port 5070"),
        ({"addresses": ["203.0.113.0/24"]}, "udp port 5060-5070 203.0.113.0/24"),
    ],
)
def test_overlapping_classes_are_refused_with_the_overlap(second: dict[str, Any], shared: str) -> None:
    error = refused({"voip": SIP, "games": second})
    assert (error.where, error.value) == ("sites.home.classes.games", "games")
    assert error.expected == f"a class that does not overlap voip: {shared} would belong to both"


def test_classes_that_differ_in_one_field_are_accepted() -> None:
    voip = SIP | {"dscp": ["46"], "addresses": ["203.0.113.0/24"]}
    for second in (
        {"protocols": ["tcp", "icmp"]},
        {"protocols": ["udp"], "ports": ["5071-6000", "5059"]},
        {"protocols": ["tcp"], "ports": ["5060"], "dscp": ["46"]},
        {"dscp": ["0", "45"]},
        {"addresses": ["203.0.114.0/24", "2001:db8::/32"]},
    ):
        config(classes={"voip": voip, "games": second}, modes={})


WAYS = st.fixed_dictionaries(
    {},
    optional={
        "protocols": st.lists(st.sampled_from(["tcp", "udp", "sctp"]), min_size=1, max_size=2, unique=True),
        "dscp": st.lists(st.sampled_from(["0", "46"]), min_size=1, max_size=1),
        "addresses": st.lists(
            st.sampled_from(["203.0.113.0/24", "203.0.113.9", "203.0.112.0/23", "2001:db8::/32"]),
            min_size=1, max_size=2, unique=True,
        ),
    },
).filter(bool)  # fmt: skip


@settings(max_examples=25)  # each compiles up to two programs and sends 72 packets
@given(first=WAYS, second=WAYS, narrow=st.booleans())
def test_packet_is_in_at_most_one_class(first: dict[str, Any], second: dict[str, Any], narrow: bool) -> None:
    if narrow and "protocols" in first:
        first = first | {"ports": ["80-89"]}
    if narrow and "protocols" in second:
        second = second | {"ports": ["88-95"]}
    packets = [
        replace(make("192.168.110.3", there, eth_dst=GATEWAY_MAC, **{f"{make.__name__}_dst": port}), ip_dscp=dscp)
        for make in (tcp, udp, sctp)
        for there in ("203.0.113.9", "203.0.113.10", "203.0.112.1", "198.51.100.1")
        for port in (80, 89, 95)
        for dscp in (0, 46)
    ]
    try:
        site = config(classes={"first": first, "second": second}, modes={}).sites[0]
    except ConfigError as error:
        assert "does not overlap first" in error.expected
        alone = [config(classes={"x": each}, modes={"x": "off"}, mode="single").sites[0] for each in (first, second)]
        switches = [
            FakeSwitch(PORTS).load(compile(site, sites.known(site, active={"client": "lte"}))) for site in alone
        ]
        of_ipv6 = "2001:db8::/32" in [*first.get("addresses", []), *second.get("addresses", [])]
        assert of_ipv6 or any(all(ports_of(switch, packet) == BY_WIFI for switch in switches) for packet in packets)
    else:
        switch = FakeSwitch(PORTS).load(compile(site, sites.known(site)))
        for packet in packets:
            assert ports_of(switch, packet), "two matching flows of one priority are undefined"


def test_mode_of_an_unknown_class_is_refused() -> None:
    error = refused({"voip": SIP}, {"viop": "bicast"})
    assert (error.where, error.expected) == ("sites.home.terminals.client.modes.viop", "one of the site's classes voip")
    assert refused({}, {"voip": "bicast"}).expected == "no class: the site has no `classes`"
    assert refused({"voip": SIP}, {"voip": "file"}).expected == "one of bicast, single, off, auto"


def test_classes_with_too_many_flows_are_refused_early() -> None:
    wide = {"protocols": ["tcp", "udp", "sctp"], "ports": [f"{at}001-{at}998" for at in range(1, 17)]}
    written = {"sites": {"big": sites.many(250)}}
    written["sites"]["big"]["classes"] = {"wide": wide | {"dscp": [str(at) for at in range(16)]}}
    with pytest.raises(ConfigError, match=r"sites\.big\.classes: found 'classes that need \d+ flows', .* 16384 flows"):
        sites.loaded(written)
    written = document(classes={"wide": wide | {"dscp": [str(at) for at in range(3)]}}, modes={})
    assert sites.loaded(written).sites[1].named_there
    for at in range(3, 12):
        more = [{"address": f"192.168.0.{at}", "port": f"more{at}"}]
        written["sites"]["far"]["terminals"][f"server-{at}"] = {"addresses": more}
    with pytest.raises(ConfigError, match=r"sites\.far\.mirrors: .* and this site's 10 inside ports"):
        sites.loaded(written)


# Overrides


def connected() -> CoreAndSwitch:
    pair = CoreAndSwitch(config(), [FakeSwitch(PORTS), FakeSwitch(PORTS, dpid=2)])
    for dpid in (1, 2):
        pair.connect(dpid)
    pair.drain()
    return pair


def override(pair: CoreAndSwitch, name: str, mode: Mode | None, traffic: str | None) -> tuple[str, ...]:
    answer, effects = overrides.mode(pair.core, name, mode, pair.now, traffic)
    pair.carry(effects)
    pair.drain()
    for dpid in (1, 2):
        assert pair.installed(dpid) == pair.compiled(dpid)
    return answer.done


def test_class_override_changes_both_ends_and_reports_it() -> None:
    pair = connected()
    before = [pair.installed(dpid) for dpid in (1, 2)]
    assert override(pair, "client", Mode.SINGLE, "voip") == ("client/voip is in mode single",)
    assert override(pair, "client", Mode.SINGLE, "voip") == ("client/voip is already in mode single",)
    for dpid, program in zip((1, 2), before, strict=True):
        changes = diff(program, pair.installed(dpid))
        assert changes and all(isinstance(change, ModifyGroup) for change in changes)
    assert override(pair, "client", None, "voip") == ("client/voip follows gateway.yaml: mode bicast",)
    assert [pair.installed(dpid) for dpid in (1, 2)] == before and not pair.core.overrides.modes
    assert override(pair, "phone", None, "voip") == ("phone/voip already follows gateway.yaml: mode auto, as phone is",)


@pytest.mark.parametrize("terminal", ["client", "server", "all"])
def test_override_of_an_unknown_class_is_refused(terminal: str) -> None:
    pair = connected()
    with pytest.raises(UnknownClass):
        overrides.mode(pair.core, terminal, Mode.OFF, pair.now, "viop")
    assert not pair.core.overrides.modes


def test_active_uplink_used_only_by_a_class_counts_at_once() -> None:
    pair = connected()
    override(pair, "client", Mode.OFF, None)
    answer, *_ = overrides.active(pair.core, "client", "lte", pair.now)
    assert "applies once the mode changes" not in answer.done[0]
    override(pair, "client", Mode.OFF, "backup-job")
    override(pair, "client", Mode.OFF, "voip")
    answer, *_ = overrides.active(pair.core, "client", "wifi", pair.now)
    assert "applies once the mode changes" in answer.done[0]


# Policies


@pytest.mark.parametrize(
    ("wishes", "over"),
    [
        ({}, None),
        ({"client/backup-job": Mode.BICAST}, PacketUplinks.EVERY),
        ({"client": Mode.SINGLE}, PacketUplinks.ACTIVE),
        ({"client": Mode.OFF, "client/backup-job": Mode.OFF}, PacketUplinks.OWN),
    ],
)
def test_terminal_tcp_leaves_as_its_classes_agree_or_unknown(
    wishes: Mapping[str, Mode], over: PacketUplinks | None
) -> None:
    """Classes without TCP are ignored."""
    site = config().sites[0]
    assert way(site, site.terminals[0], InForce(Overrides(dict(wishes)))).over is over
