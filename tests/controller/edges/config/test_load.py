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


WIFI = (*HOME, "uplinks", "wifi")
CLIENT = (*HOME, "terminals", "client")
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
    ("a budget with its unit", (*WIFI, "budget_bytes_per_day"), "100 MB", "found '100 MB'", "100000000 for 100 MB"),
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
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "where", "expected"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_invalid_value_is_refused_with_place_and_expectation(
    path: tuple[str | int, ...], value: Any, where: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load.parse(yaml.safe_dump(with_change(path, value), sort_keys=False), "gateway.yaml")
    message = str(refused.value)
    assert message.startswith("gateway.yaml: ") and where in message and expected in message, message


ADDRESSES: dict[str, tuple[tuple[str | int, ...], str]] = {  # the places of each kind of address
    "terminal": (
        (*HOME, "terminals", "phone", "addresses"),
        "sites.home.terminals.phone.addresses[0].address",
    ),
    "gateway": ((*HOME, "subnets", "lan", "gateways"), "sites.home.subnets.lan.gateways[0]"),
    "uplink": ((*WIFI, "addresses"), "sites.home.uplinks.wifi.addresses[0]"),
    "next hop": ((*WIFI, "next_hops"), "sites.home.uplinks.wifi.next_hops[0].address"),
}
NO_MACHINES = [
    ("terminal", "fe80::7", "addresses in fe80::/10"),
    ("terminal", "::ffff:10.1.0.7", "addresses in ::ffff:0:0/96"),
    ("terminal", "10.1.0.255", "the address of a host in 10.1.0.0/24"),
    ("gateway", "127.0.0.1/8", "addresses in 127.0.0.0/8"),
    ("uplink", "240.0.0.2/24", "addresses in 240.0.0.0/4"),
    ("uplink", "192.168.100.0/24", "the address of a host in 192.168.100.0/24"),
    ("next hop", "169.254.0.1", "addresses in 169.254.0.0/16"),
    ("next hop", "fe80::1%wifi0", "an address without a zone"),
]


@pytest.mark.parametrize(("whose", "address", "expected"), NO_MACHINES)
def test_address_that_no_host_can_have_is_refused(whose: str, address: str, expected: str) -> None:
    path, where = ADDRESSES[whose]
    value = {"terminal": {"address": address, "port": "lan0"}, "next hop": {"address": address}}.get(whose, address)
    with pytest.raises(ConfigError) as refused:
        sites.loaded(with_change(path, [value]))
    assert (refused.value.where, refused.value.value) == (where, address)
    assert expected in refused.value.expected


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("sites: {home: ]", "line 1"),
        (
            "sites: {}\nsites: {}",
            "line 2, column 1: found \"the key 'sites' a second time\", expected .*: it is also in line 1",
        ),
        (
            "sites:\n  a: {rule: off, rule: off}",
            "line 2, column 18: found \"the key 'rule' a second time\", expected .* line 2",
        ),
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
    written["controller"] = {
        "openflow": {
            "listen": "127.0.0.1:6653",
            "tls": {"certificate": "tls/c.pem", "key": "/keys/k.pem", "ca": "ca.pem"},
        },
        "state": "state.json",
        "agents": {"directory": "agents"},
    }
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
    with pytest.raises(
        ConfigError, match=r"phone\.default_uplink: found 'lte', expected an uplink with a next hop for fd00:1::7"
    ):
        sites.loaded(written)


def test_mac_of_digits_is_not_a_number() -> None:
    written = yaml.safe_dump(sites.document(), sort_keys=False).replace("08:00:27:81:6b:cf", "10:20:30:40:50:51")
    assert load.parse(written.replace("'10:20:30:40:50:51'", "10:20:30:40:50:51")).sites[0].uplinks[0].mac == (
        "10:20:30:40:50:51"
    )


def test_limits_of_uplinks_and_terminals_are_enforced() -> None:
    assert len(sites.loaded({"sites": {"big": sites.many(250, 8)}}).sites[0].terminals) == 250
    for terminals, uplinks, said in ((251, 1, "at most 250"), (1, 9, "at most 8 uplinks")):
        with pytest.raises(ConfigError, match=said):
            sites.loaded({"sites": {"big": sites.many(terminals, uplinks)}})


MANY = {f"n{number}": {"odd": number} for number in range(300)}
MORE_THAN_MAY_BE: list[tuple[tuple[str | int, ...], Any, str]] = [
    (("sites",), MANY, "sites: found {.*at most 128 sites"),
    ((*HOME, "subnets"), MANY, "home.subnets: found {.*at most 250 subnets"),
    ((*HOME, "terminals"), MANY, "home.terminals: found {.*at most 250 terminals"),
    ((*HOME, "access_points"), MANY, "home.access_points: found {.*at most 250 access points"),
    ((*HOME, "uplinks"), MANY, "home.uplinks: found {.*at most 8 uplinks"),
    ((*HOME, "bicast"), ["odd"] * 300, "home.bicast: found .*at most 4 protocols"),
    ((*WIFI, "addresses"), ["odd"] * 300, "wifi.addresses: found .*at most 2 addresses"),
    ((*WIFI, "next_hops"), ["odd"] * 300, "wifi.next_hops: found .*at most 2 next hops"),
    ((*HOME, "subnets", "lan", "gateways"), ["odd"] * 300, "lan.gateways: found .*at most 2 addresses"),
    ((*CLIENT, "addresses"), ["odd"] * 300, "client.addresses: found .*at most 16 addresses"),
]


@pytest.mark.parametrize(("path", "value", "said"), MORE_THAN_MAY_BE, ids=[row[2][:12] for row in MORE_THAN_MAY_BE])
def test_excess_entries_are_counted_before_they_are_read(path: tuple[str | int, ...], value: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load.parse(yaml.safe_dump(with_change(path, value), sort_keys=False))


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
    at = ("sites", "home", "uplinks", "wifi", "next_hops", 1, "address")
    site = sites.loaded(with_change(at, "fe80::1")).sites[0]
    assert [str(hop.address) for hop in site.uplink("wifi").next_hops] == ["192.168.100.1", "fe80::1"]


def test_names_and_dpids_are_unique_over_all_sites() -> None:
    two: dict[str, Any] = {"sites": {"a": sites.many(1, 1, 1, "a"), "b": sites.many(1, 1, 2, "a")}}
    with pytest.raises(ConfigError, match=r"b\.terminals\.a-t1.*no other site has"):
        sites.loaded(two)
    two["sites"]["b"] = sites.many(1, 1, 1, "b")
    with pytest.raises(ConfigError, match=r"b\.dpid.*no other site has"):
        sites.loaded(two)


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
