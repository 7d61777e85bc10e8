# SPDX-License-Identifier: Apache-2.0
"""A YAML document whose nodes know their place, for errors.

Every scalar is read as text: YAML 1.1 would turn the MAC 10:20:30:40:50:51 into a number in base sixty, and the
datapath id 0000000000000001 into an octal one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import PurePath
from typing import Any, TypeVar

import yaml

from controller.model.config import SHORT, ConfigError
from controller.model.relaying import HOST_END
from controller.model.settings import Endpoint, LocalSocket
from controller.model.traffic import Address, Family, Interface, Network

SHORT.maxstring = SHORT.maxother = 80

T = TypeVar("T")
U = TypeVar("U")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
MOST_SOCKET_PATH_BYTES = 107  # sockaddr_un(7), without the closing zero
INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,14}")  # IFNAMSIZ leaves 15
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
LEAST_BPS, MOST_BPS = 10_000, 10**12  # less is probably meant in Mbit/s


class _Loader(yaml.BaseLoader):
    """Refuses duplicate keys, of which PyYAML keeps the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key that is not a plain word", key.start_mark)
            if key.value in lines:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key.value!r} a second time",
                    problem_mark=key.start_mark,
                    note=f"each key once: it is also in line {lines[key.value]}",
                )
            lines[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)


@dataclass(frozen=True, slots=True)
class Node:
    """A value in a document, with its path."""

    file: str
    where: str
    value: object

    def wrong(self, expected: str) -> ConfigError:
        return ConfigError(self.file, self.where, self.value, expected)

    def _inner(self, step: str, value: object) -> Node:
        return Node(self.file, f"{self.where}.{step}" if self.where else step, value)

    def mapping(self, *allowed: str, required: tuple[str, ...] = ()) -> Mapped:
        named = self.named()
        for key, place in named.items():
            if key not in allowed and key not in required:
                raise ConfigError(
                    self.file, place.where, key, f"one of the keys {', '.join(sorted({*allowed, *required}))}"
                )
        for key in required:
            if key not in named:
                raise self._inner(key, None).wrong("a value: this key is required")
        return Mapped(self, named)

    def named(self) -> dict[str, Node]:
        if not isinstance(self.value, dict):
            raise self.wrong("a mapping of keys to values")
        return {key: self._inner(key, value) for key, value in self.value.items()}

    def by_name(self, most: int, what: str) -> Iterator[tuple[str, Node]]:
        """Return a mapping with chosen keys, counted before any value is read."""
        named = self.named()
        if len(named) > most:
            raise self.wrong(f"at most {most} {what}")
        for key, place in named.items():
            if not NAME.fullmatch(key):
                raise ConfigError(self.file, place.where, key, "a name of letters, digits, '.', '_' and '-'")
            yield key, place

    def each(self, most: int, what: str) -> list[Node]:
        if not isinstance(self.value, list):
            raise self.wrong("a list, such as [first, second]")
        if len(self.value) > most:
            raise self.wrong(f"at most {most} {what}")
        return [Node(self.file, f"{self.where}[{number}]", value) for number, value in enumerate(self.value)]

    def text(self, expected: str = "a text") -> str:
        if not isinstance(self.value, str) or not self.value or not self.value.isprintable():
            raise self.wrong(expected)
        return self.value

    def _parsed(self, parse: Callable[[str], T], expected: str) -> T:
        try:
            return parse(self.text(expected))
        except ValueError:
            raise self.wrong(expected) from None

    def integer(self, least: int, most: int, expected: str = "") -> int:
        expected = expected or f"a whole number from {least} to {most}"
        digits = self.text(expected)
        if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(most))):
            raise self.wrong(expected)
        number = int(digits)
        if not least <= number <= most:
            raise self.wrong(expected)
        return number

    def bits_per_second(self) -> int:
        expected = "a whole number of bit/s, from 10000 to 10^12, such as 20000000 for 20 Mbit/s"
        return self.integer(LEAST_BPS, MOST_BPS, expected)

    def choice(self, options: dict[str, T]) -> T:
        expected = f"one of {', '.join(options)}" if options else "no such key: no value is possible here"
        text = self.text(expected)
        if text not in options:
            raise self.wrong(expected)
        return options[text]

    def yes_or_no(self) -> bool:
        return self.choice({"true": True, "false": False})

    def mac(self) -> str:
        expected = "a MAC address such as 08:00:27:81:6b:cf"
        text = self.text(expected).lower()
        if not MAC.fullmatch(text):
            raise self.wrong(expected)
        if int(text[:2], 16) & 1 or text == "00:00:00:00:00:00":
            raise self.wrong("a unicast MAC address: this one is multicast or zero")
        return text

    def address(self) -> Address:
        return self._usable(self._parsed(ip_address, "an IPv4 or IPv6 address"))

    def next_hop_address(self) -> Address:
        """Return a next hop's address. The uplink's port is the link of a link-local one."""
        address = self._parsed(ip_address, "an IPv4 or IPv6 address")
        if address.version == 6 and address.is_link_local:
            return self._unzoned(address)
        return self._usable(address)

    def interface(self) -> Interface:
        expected = "an address with its prefix length, such as 192.168.100.2/24"
        interface = self._parsed(ip_interface, expected)
        if "/" not in self.text():
            raise self.wrong(expected)
        self._usable(interface.ip)
        if interface.network.prefixlen == 0:
            raise self.wrong("a prefix length of 1 or more")
        return interface

    def network(self) -> Network:
        expected = (
            "an address, or the network with a prefix length of 1 or more and no host bits set, such as 203.0.113.0/24"
        )
        network = self._parsed(ip_network, expected)
        if network.prefixlen == 0 or "%" in self.text():
            raise self.wrong(expected)
        for never in map(ip_network, Family.of(network.network_address).never_routed):
            if network.network_address in never and network.broadcast_address in never:
                raise self.wrong(f"a network of routable hosts: addresses in {never} are not routed")
        return network

    def _usable(self, address: Address) -> Address:
        for network in Family.of(address).never_routed:
            if address in ip_network(network):
                raise self.wrong(f"a routable host address: addresses in {network} are not routed")
        return self._unzoned(address)

    def _unzoned(self, address: Address) -> Address:
        if getattr(address, "scope_id", None):
            raise self.wrong("an address without a zone: the port already selects the interface")
        return address

    def port_name(self) -> str:
        expected = "the name of a network interface: letters, digits, '.', '_', ':', '@', '-', 15 at most"
        text = self.text(expected)
        if not INTERFACE.fullmatch(text):
            raise self.wrong(expected)
        return text

    def path(self) -> str:
        """Return a path, relative to this document."""
        return str(PurePath(self.file).parent / self.text())

    def listener(self) -> Endpoint | LocalSocket:
        """Return a listener. An absolute path is a Unix socket."""
        text = self.value
        if not isinstance(text, str) or not text.startswith("/"):
            return self.endpoint()
        if len(text.encode()) > MOST_SOCKET_PATH_BYTES:
            raise self.wrong(f"the path of a Unix socket, which has {MOST_SOCKET_PATH_BYTES} bytes at most")
        return LocalSocket(self.path())

    def endpoint(self) -> Endpoint:
        expected = "an address and a port, such as 127.0.0.1:6653 or [::1]:6653"
        host, colon, port = self.text(expected).rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or not 1 <= int(port) <= 65535:
            raise self.wrong(expected)
        if host.startswith("[") != (":" in host):
            raise self.wrong(expected)
        host = host.removeprefix("[").removesuffix("]")
        if "%" in host:
            raise self.wrong(f"{expected}, without a zone")
        self._parsed(lambda _: ip_address(host), expected)
        return Endpoint(host, int(port))


class Mapped:
    """The keys of a mapping. None: left out."""

    def __init__(self, place: Node, named: dict[str, Node]) -> None:
        self.place = place
        self._named = named

    def __getitem__(self, key: str) -> Node:
        return self._named[key]

    def maybe(self, key: str, read: Callable[[Node], T], otherwise: U) -> T | U:
        return read(self._named[key]) if key in self._named else otherwise


def parse(path: str, raw: bytes | str) -> Node:
    try:
        return Node(path, "", yaml.load(raw, _Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(path, line, error.problem or error.context, error.note or "YAML") from None
    except (yaml.YAMLError, UnicodeError, RecursionError, ValueError):
        raise ConfigError(path, "", "a file that cannot be parsed", "YAML in UTF-8") from None


LONGEST_PAIR_PORT = 15 - len(HOST_END)


def pair_port(place: Node) -> str:
    name = place.port_name()
    if len(name) > LONGEST_PAIR_PORT:
        raise place.wrong(f"a name of at most {LONGEST_PAIR_PORT} characters: the host's end is called NAME{HOST_END}")
    return name


def interfaces(place: Node) -> tuple[Interface, ...]:
    places = place.each(len(Family), "addresses, one of each family")
    found = tuple(inner.interface() for inner in places)
    if not found:
        raise place.wrong("at least one address with its prefix length")
    for inner, interface in zip(places, found, strict=True):
        a_host(inner, interface.ip, interface)
    one_a_family(found, place)
    return found


def one_a_family(addresses: tuple[Address | Interface, ...], place: Node) -> None:
    families = [Family.of(address) for address in addresses]
    if len(set(families)) != len(families):
        raise place.wrong("one of each family at most")


def a_host(place: Node, address: Address, network_of: Interface) -> None:
    if is_reserved(address, network_of):
        raise place.wrong(f"the address of a host in {network_of.network}")


def is_reserved(address: Address, network_of: Interface) -> bool:
    network = network_of.network
    return network.num_addresses > 2 and (
        address == network.network_address or (address.version == 4 and address == network.broadcast_address)
    )
