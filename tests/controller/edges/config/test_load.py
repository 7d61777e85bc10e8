# SPDX-License-Identifier: Apache-2.0
"""An invalid configuration is refused whole, with the place, the value and the expectation."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_interface
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controller.edges.config import load
from controller.edges.config.checks import networks_apart
from controller.edges.config.document import Node
from controller.model.config import ConfigError, Subnet
from tests.controller import relayed_site, sites

HOME = ("sites", "home")


def with_change(
    path: tuple[str | int, ...], value: Any, of: Callable[[], dict[str, Any]] = sites.document
) -> dict[str, Any]:
    written = of()
    at: Any = written
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return written


def is_refused(written: dict[str, Any], where: str, expected: str) -> None:
    """Check that one error names the place, and what is expected there."""
    with pytest.raises(ConfigError) as refused:
        load.parse(yaml.safe_dump(written, sort_keys=False), "gateway.yaml")
    message = str(refused.value)
    assert message.startswith("gateway.yaml: ") and where in message and expected in message, message


WIFI = (*HOME, "uplinks", "wifi")
CLIENT = (*HOME, "terminals", "client")
PHONE_IS = (*HOME, "terminals", "phone", "addresses", 0, "address")
HOP_IS = (*WIFI, "next_hops", 1, "address")
LAN_IS = (*HOME, "subnets", "lan", "gateways")
MANY = {f"n{number}": {"odd": number} for number in range(300)}
BAD: list[tuple[str, tuple[str | int, ...], Any, str, str]] = [
    ("unknown key", (*WIFI, "colour"), "red", "sites.home.uplinks.wifi.colour: found 'colour'", "one of the keys"),
    ("unknown key at the top", ("site",), {}, "site: found 'site'", "controller, servers, sites"),
    ("wrong type", (*HOME, "uplinks"), ["wifi"], "sites.home.uplinks: found ['wifi']", "a mapping"),
    ("mapping for an address", (*HOME, "access_points", "air", "measure"), {"local": "192.0.2.9"}, "air.measure",
     "an IPv4 or IPv6 address"),
    ("uplink's port twice", (*WIFI, "port"), "lte0", "uplinks.lte.port: found 'lte0'", "uplinks.wifi.port"),
    ("uplink's port inside", (*CLIENT, "addresses", 0, "port"), "wifi0", "addresses[0].port", "another port"),
    ("overlapping subnets", (*HOME, "subnets", "lan", "gateways"), ["192.168.110.1/25"], "lan.gateways", "not overlap"),
    ("subnet over an uplink", (*HOME, "subnets", "lan", "gateways"), ["192.168.0.1/16"], "lan.gateways", "not overlap"),
    ("multicast MAC", (*WIFI, "mac"), "01:00:5e:00:00:01", "wifi.mac: found '01:00:5e:00:00:01'", "unicast MAC"),
    ("no next hop", (*WIFI, "next_hops"), None, "wifi.next_hops: found nothing", "required"),
    ("empty next hops", (*WIFI, "next_hops"), [], "wifi.next_hops", "at least one next hop"),
    ("next hop elsewhere", (*WIFI, "next_hops", 0, "address"), "192.168.99.1", "next_hops[0].address", "own networks"),
    ("own next hop", (*WIFI, "next_hops", 0, "address"), "192.168.100.2", "next_hops[0].address", "another host"),
    ("broadcast next hop", (*WIFI, "next_hops", 0, "address"), "192.168.100.255", "next_hops[0]", "of a host"),
    ("two of a family", (*WIFI, "addresses"), ["192.168.100.2/24", "10.7.0.2/24"], "wifi.addresses", "one of each"),
    ("no prefix is a host", (*WIFI, "addresses"), ["192.168.100.2"], "wifi.addresses[0]", "prefix length"),
    ("dpid zero", (*HOME, "dpid"), "0" * 16, "sites.home.dpid", "16 hexadecimal digits"),
    ("kind", (*WIFI, "kind"), "pigeon", "wifi.kind: found 'pigeon'", "ethernet"),
    ("a budget without a period", (*WIFI, "budget"), "100MB", "found '100MB'", "2GB/month"),
    ("no share", (*WIFI, "max_share"), "0.0", "wifi.max_share", "above 0"),
    ("uplink of a subnet", (*HOME, "subnets", "lan", "uplink"), "dsl", "lan.uplink: found 'dsl'", "wifi, lte"),
    ("default uplink", (*CLIENT, "default_uplink"), "dsl", "client.default_uplink", "wifi, lte"),
    ("bandwidth", (*HOME, "access_points", "air", "bandwidth_bps"), "-1", "bandwidth_bps", "a whole number of bit/s"),
    ("a strange address", (*CLIENT, "addresses", 0, "address"), "10.9.9.9", "addresses[0].address", "subnets"),
    ("address of the gateway", (*CLIENT, "addresses", 0, "address"), "192.168.110.2", "addresses[0]", "no other entry"),
    ("address twice", (*HOME, "terminals", "phone", "addresses", 0, "address"), "192.168.110.3", "phone", "no other"),
    ("multicast address", (*CLIENT, "addresses", 0, "address"), "224.0.0.1", "addresses[0].address", "a routable host"),
    ("no addresses", (*CLIENT, "addresses"), [], "client.addresses", "at least one address"),
    ("long port", (*WIFI, "port"), "a" * 16, "wifi.port", "15 at most"),
    ("odd name", (*HOME, "uplinks", "wi fi"), {}, "uplinks.wi fi", "a name of letters"),
    ("reserved name", (*HOME, "terminals", "all"), {}, "terminals.all", "another name"),
    ("protocols", (*HOME, "bicast"), ["tcp", "tcp"], "home.bicast", "each once"),
    ("listening to all", ("controller",), {"api": {"listen": "0.0.0.0:8653"}}, "controller.api.listen", "token_file"),
    ("listening in clear", ("controller",), {"api": {"listen": "0.0.0.0:8653", "token_file": "t"}},
     "controller.api.listen", "`tls`"),
    ("half of the API's tls", ("controller",), {"api": {"tls": {"key": "k"}}}, "api.tls.certificate", "required"),
    ("one token for both", ("controller",), {"api": {"token_file": "t", "reader_token_file": "t"}},
     "controller.api.reader_token_file", "another file"),
    ("OpenFlow to all", ("controller",), {"openflow": {"listen": "[::]:6653"}}, "openflow.listen", "`tls`"),
    ("TLS at a Unix socket", ("controller",), {"openflow": {"tls": {"certificate": "c", "key": "k", "ca": "a"}}},
     "controller.openflow.tls", "an address and port in `listen`: a Unix socket has no TLS"),
    ("a long socket path", ("controller",), {"openflow": {"listen": "/" + "s" * 107}}, "openflow.listen", "107 bytes"),
    ("endpoint", ("controller",), {"api": {"listen": "localhost"}}, "controller.api.listen", "127.0.0.1:6653"),
    ("port number", ("controller",), {"api": {"listen": "127.0.0.1:99999"}}, "api.listen", "an address and a port"),
    ("half of tls", ("controller",), {"openflow": {"tls": {"key": "k"}}}, "tls.certificate", "required"),
    ("subnet's uplink leads nowhere", (*HOME, "uplinks", "lte", "next_hops"), [{"address": "192.168.200.1"}],
     "subnets.lte-side.uplink: found 'lte'", "a next hop for IPv6"),
    ("endless port number", ("controller",), {"api": {"listen": "127.0.0.1:" + "9" * 5000}}, "api.listen", "a port"),
    ("two in one place", ("controller",), {"agents": {"join": "127.0.0.1:8655"}},
     "controller.agents.join: found '127.0.0.1:8655'", "than 127.0.0.1:8655 at controller.agents.listen"),
    ("anywhere is here too", ("controller",), {"agents": {"listen": "0.0.0.0:8653"}},
     "controller.agents.listen: found '0.0.0.0:8653'", "at controller.api.listen"),
    ("here is anywhere too", ("controller",), {"agents": {"listen": "[::]:8655", "join": "[::1]:8655"}},
     "controller.agents.join", "than [::]:8655 at controller.agents.listen"),
    ("agents at a subnet's gateway", ("controller",), {"agents": {"listen": "192.168.110.2:8655"}},
     "controller.agents.listen: found '192.168.110.2:8655'", "which is also at sites.home.subnets.wifi-side.gateways"),
    ("agents joining at an uplink's address", ("controller",), {"agents": {"join": "[fd00:100::2]:8656"}},
     "controller.agents.join: found '[fd00:100::2]:8656'", "which is also at sites.home.uplinks.wifi.addresses"),
    ("agents at a terminal's address", ("controller",), {"agents": {"listen": "192.168.110.3:8655"}},
     "controller.agents.listen", "which is also at sites.home.terminals.client.addresses[0].address"),
    ("OpenFlow at a subnet's gateway", ("controller",),
     {"openflow": {"listen": "192.168.110.2:6653", "tls": {"certificate": "c", "key": "k", "ca": "a"}}},
     "controller.openflow.listen", "an address of the controller's own machine"),
    ("a device for the state", ("controller",), {"state": "/dev/null"}, "controller.state", "a regular file"),
    ("the state in a device", ("controller",), {"state": "/dev/null/s"}, "controller.state", "a regular file"),
    ("agents in a device", ("controller",), {"agents": {"directory": "/dev/null"}},
     "controller.agents.directory: found '/dev/null'", "a directory, or a path that does not exist yet"),
    ("two at one path", ("controller",), {"state": "nowhere/kept", "agents": {"directory": "nowhere/kept"}},
     "controller.agents.directory", "a path of its own (it is also at controller.state)"),
    ("the state among agents' keys", ("controller",),
     {"state": "nowhere/agents/ca.pem", "agents": {"directory": "nowhere/agents"}}, "controller.state",
     "a file outside "),
    ("a zone to listen in", ("controller",), {"agents": {"listen": "[::1%lo]:8655"}}, "controller.agents.listen",
     "without a zone"),
    ("a key that moves the cursor", ("controller",), {"sta\n\x1b[31mte": "x"}, "controller.sta\\n\\x1b[31mte",
     "one of"),
    ("no sites", ("sites",), {}, "sites: found {}", "at least one site"),
    # addresses that no host can have
    ("link-local terminal", PHONE_IS, "fe80::7", "phone.addresses[0].address: found 'fe80::7'", "in fe80::/10"),
    ("mapped terminal", PHONE_IS, "::ffff:10.1.0.7", "phone.addresses[0].address", "addresses in ::ffff:0:0/96"),
    ("broadcast terminal", PHONE_IS, "10.1.0.255", "phone.addresses[0].address", "address of a host in 10.1.0.0/24"),
    ("loopback gateway", LAN_IS, ["127.0.0.1/8"], "lan.gateways[0]: found '127.0.0.1/8'", "addresses in 127.0.0.0/8"),
    ("reserved uplink", (*WIFI, "addresses"), ["240.0.0.2/24"], "wifi.addresses[0]", "addresses in 240.0.0.0/4"),
    ("network of an uplink", (*WIFI, "addresses"), ["192.168.100.0/24"], "wifi.addresses[0]", "address of a host in"),
    ("link-local next hop", HOP_IS, "169.254.0.1", "next_hops[1].address", "addresses in 169.254.0.0/16"),
    ("next hop with a zone", HOP_IS, "fe80::1%wifi0", "hops[1].address: found 'fe80::1%wifi0'", "without a zone"),
    # too many entries, which are counted before they are read
    ("sites", ("sites",), MANY, "sites: found {", "at most 128 sites"),
    ("subnets", (*HOME, "subnets"), MANY, "home.subnets: found {", "at most 250 subnets"),
    ("terminals", (*HOME, "terminals"), MANY, "home.terminals: found {", "at most 250 terminals"),
    ("access points", (*HOME, "access_points"), MANY, "home.access_points: found {", "at most 250 access points"),
    ("uplinks", (*HOME, "uplinks"), MANY, "home.uplinks: found {", "at most 8 uplinks"),
    ("copied protocols", (*HOME, "bicast"), ["odd"] * 300, "home.bicast: found ", "at most 4 protocols"),
    ("uplink's addresses", (*WIFI, "addresses"), ["odd"] * 300, "wifi.addresses: found ", "at most 2 addresses"),
    ("next hops", (*WIFI, "next_hops"), ["odd"] * 300, "wifi.next_hops: found ", "at most 2 next hops"),
    ("gateways", LAN_IS, ["odd"] * 300, "lan.gateways: found ", "at most 2 addresses"),
    ("addresses", (*CLIENT, "addresses"), ["odd"] * 300, "client.addresses: found ", "at most 16 addresses"),
    # addresses to probe beyond the next hops
    ("nothing to reach", (*HOME, "reach"), [], "sites.home.reach", "at least one address"),
    ("reached twice", (*HOME, "reach"), ["203.0.113.5"] * 2, "sites.home.reach", "each address once"),
    ("a next hop to reach", (*HOME, "reach"), ["192.168.100.1"], "sites.home.reach", "beyond the next hops"),
    ("a terminal to reach", (*HOME, "reach"), ["192.168.110.3"], "sites.home.reach", "beyond the next hops"),
    ("too much to reach", (*HOME, "reach"), [f"203.0.113.{n}" for n in range(5)], "home.reach", "at most 4 addresses"),
    ("a name to reach", (*HOME, "reach"), ["example.net"], "sites.home.reach", "an IPv4 or IPv6 address"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "where", "expected"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_invalid_value_is_refused_with_place_and_expectation(
    path: tuple[str | int, ...], value: Any, where: str, expected: str
) -> None:
    is_refused(with_change(path, value), where, expected)


TWICE = 'a second time", expected .*'


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("sites: {home: ]", "line 1"),
        ("sites: {}\nsites: {}", f"line 2, column 1: found \"the key 'sites' {TWICE}: it is also in line 1"),
        ("sites:\n  a: {rule: off, rule: off}", f"line 2, column 18: found \"the key 'rule' {TWICE} line 2"),
        ("[1, 2]: 3", "not a plain word"),
        ("&a [*a]", "recursive"),
        ("", "a mapping"),
        ("\x00", "YAML"),
        (b"\xff\xfe\xff", "YAML"),
        ("[" * 5000, "YAML"),
    ],
)
def test_text_that_is_no_configuration_is_refused(text: str | bytes, where: str) -> None:
    with pytest.raises(ConfigError, match=where):
        load.parse(text)


def test_named_files_are_relative_to_the_configuration() -> None:
    written = sites.document()
    tls = {"certificate": "tls/c.pem", "key": "/keys/k.pem", "ca": "ca.pem"}
    openflow = {"listen": "127.0.0.1:6653", "tls": tls}
    written["controller"] = {"openflow": openflow, "state": "state.json", "agents": {"directory": "agents"}}
    settings = load.parse(yaml.safe_dump(written, sort_keys=False), "/etc/bicast/gateway.yaml").settings
    assert settings.tls is not None
    assert (settings.tls.certificate, settings.tls.key) == ("/etc/bicast/tls/c.pem", "/keys/k.pem")
    assert settings.state_file == "/etc/bicast/state.json"
    assert settings.agents is not None and settings.agents.directory == "/etc/bicast/agents"


def test_separate_listeners_and_existing_files_are_accepted(tmp_path: Path) -> None:
    written = sites.document()
    (tmp_path / "state.json").write_text("{}")
    written["controller"] = {
        "api": {"listen": "127.0.0.1:8655"},
        "agents": {"listen": "127.0.0.2:8655", "join": "[::]:8655", "directory": str(tmp_path / "agents")},
        "state": str(tmp_path / "state.json"),
    }
    settings = load.parse(yaml.safe_dump(written)).settings
    assert settings.agents is not None and settings.agents.directory == str(tmp_path / "agents")
    del written["controller"]["agents"]
    written["controller"]["api"]["listen"] = "127.0.0.1:8656"  # the default join address, if agents were served
    assert load.parse(yaml.safe_dump(written)).settings.agents is None


def test_yaml_aliases_do_not_inflate_an_error() -> None:
    doubling = "\n".join(f"a{at}: &a{at} [*a{at - 1}, *a{at - 1}]" for at in range(1, 60))
    with pytest.raises(ConfigError) as refused:
        load.parse(f"a0: &a0 [x, x]\n{doubling}\nsites: *a59")
    assert len(str(refused.value)) < 2000


def test_default_uplink_that_cannot_reach_is_named() -> None:
    written = sites.document()
    home = written["sites"]["home"]
    home["subnets"]["lte-side"]["gateways"] = ["192.168.210.2/24"]
    del home["uplinks"]["lte"]["next_hops"][1]
    home["terminals"]["phone"]["addresses"].append({"address": "fd00:1::7", "port": "lan0"})
    is_refused(written, "phone.default_uplink: found 'lte'", "expected an uplink with a next hop for fd00:1::7")


def test_mac_of_digits_is_not_a_number() -> None:
    written = yaml.safe_dump(sites.document(), sort_keys=False).replace("08:00:27:81:6b:cf", "10:20:30:40:50:51")
    assert load.parse(written.replace("'10:20:30:40:50:51'", "10:20:30:40:50:51")).sites[0].uplinks[0].mac == (
        "10:20:30:40:50:51"
    )


def test_limits_of_uplinks_and_terminals_are_enforced() -> None:
    assert len(sites.loaded({"sites": {"big": sites.many(250, 8)}}).sites[0].terminals) == 250
    for terminals, uplinks, said in ((251, 1, "at most 250"), (1, 9, "at most 8 uplinks")):
        is_refused({"sites": {"big": sites.many(terminals, uplinks)}}, "sites.big", said)


NETWORKS = st.tuples(st.sampled_from(["10.{}.0.7", "fd00:{}::7"]), st.integers(0, 9), st.integers(9, 24))


@given(st.lists(NETWORKS, max_size=6))
def test_networks_are_accepted_unless_two_overlap(written: list[tuple[str, int, int]]) -> None:
    subnets = tuple(
        Subnet(f"s{number}", (ip_interface(f"{form.format(part)}/{length}"),), None, None)
        for number, (form, part, length) in enumerate(written)
    )
    networks = [own.network for subnet in subnets for own in subnet.gateways]
    overlap = any(a.version == b.version and a.overlaps(b) for a, b in combinations(networks, 2))
    try:
        networks_apart((), subnets, Node("gateway.yaml", "sites.home", None))
    except ConfigError as error:
        assert overlap
        first, second = error.expected.rpartition("subnets.s")[2], error.where.rpartition("subnets.s")[2]
        assert int(first[0]) < int(second[0]), "the later one is at fault"
    else:
        assert not overlap


def test_link_local_address_is_allowed_for_a_next_hop_only() -> None:
    site = sites.loaded(with_change(HOP_IS, "fe80::1")).sites[0]
    assert [str(hop.address) for hop in site.uplink("wifi").next_hops] == ["192.168.100.1", "fe80::1"]


def test_names_and_dpids_are_unique_over_all_sites() -> None:
    two: dict[str, Any] = {"sites": {"a": sites.many(1, 1, 1, "a"), "b": sites.many(1, 1, 2, "a")}}
    is_refused(two, "b.terminals.a-t1", "no other site has")
    two["sites"]["b"] = sites.many(1, 1, 1, "b")
    is_refused(two, "b.dpid", "no other site has")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.sampled_from(["wifi", "192.168.110.3", "c1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    steps = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [path, *(deeper for step in steps for deeper in _paths(value[step], (*path, step)))]


PATHS = [path for path in _paths(relayed_site.document()) if path]


def _parses_or_refuses(parse: Callable[[], object]) -> None:
    try:
        parse()
    except ConfigError as error:
        assert error.expected


@given(path=st.sampled_from(PATHS), value=values)
def test_changed_file_is_accepted_or_refused_with_one_error(path: tuple[str | int, ...], value: Any) -> None:
    written = with_change(path, value, relayed_site.document)
    _parses_or_refuses(lambda: load.parse(yaml.safe_dump(written, sort_keys=False)))


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_random_bytes_are_refused_with_one_error(raw: bytes | str) -> None:
    _parses_or_refuses(lambda: load.parse(raw))


@pytest.mark.parametrize("where", ["client:", "terminals:", "sites:"])
def test_lone_surrogate_in_a_key_is_refused_in_valid_utf8(tmp_path: Path, where: str) -> None:
    file = tmp_path / "gateway.yaml"
    paper = Path(__file__).resolve().parents[4] / "topologies" / "paper.yaml"
    file.write_text(paper.read_text().replace(where, '"\\ud800":', 1))
    with pytest.raises(ConfigError) as refused:
        load.load(str(file))
    assert "\\ud800" in str(refused.value).encode("utf-8").decode()
