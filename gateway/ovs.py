# SPDX-License-Identifier: Apache-2.0
"""An Open vSwitch's database, read in one transaction."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from gateway.host import OVS_ANSWERS_WITHIN_S, HostError, ovs_vsctl, run

# external_ids of bicast's rows
MADE = "bicast-made"
OFFLOADS = "bicast-offloads"
SYSCTLS = "bicast-sysctls"
ADDRESSES = "bicast-addresses"

SOCKET_LINK = "bicast.sock"  # in OVS's directory: a link to the controller's socket

COLUMNS = {
    "Open_vSwitch": "ovs_version",
    "Bridge": "name,datapath_type,other_config,protocols,fail_mode,external_ids,ports,controller",
    "Port": "_uuid,name,interfaces",
    "Interface": "_uuid,name,ofport,ofport_request,error,external_ids",
    "Controller": "_uuid,target,connection_mode,inactivity_probe,max_backoff,controller_rate_limit,"
    "controller_burst_limit,is_connected,status",
    "SSL": "private_key,certificate,ca_cert,external_ids",
}

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SeenPort:
    name: str
    number: int | None  # None: OVS could not open it
    requested: int | None
    error: str
    offloads_taken: tuple[str, ...]  # turned off by bicast
    sysctls_taken: tuple[str, ...]  # set by bicast for the host's end, each with its value before
    addresses_given: tuple[str, ...]  # of a LAN's device, set by bicast


@dataclass(frozen=True, slots=True)
class SeenController:
    uuid: str
    target: str
    columns: Mapping[str, str]
    connected: bool
    last_error: str


@dataclass(frozen=True, slots=True)
class SeenBridge:
    name: str
    there: bool  # created as requested
    datapath: str
    dpid: str  # as requested; "": chosen by OVS
    protocols: frozenset[str]
    fail_mode: str
    made: bool
    ports: tuple[SeenPort, ...]
    controllers: tuple[SeenController, ...]

    def port(self, name: str) -> SeenPort | None:
        return next((port for port in self.ports if port.name == name), None)


@dataclass(frozen=True, slots=True)
class SeenTls:
    key: str
    certificate: str
    ca: str
    made: bool


@dataclass(frozen=True, slots=True)
class SeenOvs:
    version: str
    bridges: tuple[SeenBridge, ...]
    tls: SeenTls | None
    socket: str | None = None  # target of the link

    def bridge(self, name: str) -> SeenBridge | None:
        return next((bridge for bridge in self.bridges if bridge.name == name), None)

    def bridge_of(self, port: str) -> SeenBridge | None:
        return next((bridge for bridge in self.bridges if bridge.port(port)), None)


def read() -> SeenOvs:
    tables = _tables()
    interfaces = {str(row["_uuid"]): row for row in tables["Interface"]}
    ports = {str(row["_uuid"]): row for row in tables["Port"]}
    controllers = {str(row["_uuid"]): _controller(row) for row in tables["Controller"]}
    made = _made()
    found = (_bridge(row, ports, interfaces, controllers, made) for row in tables["Bridge"])
    bridges = tuple(sorted(found, key=lambda seen: seen.name))
    tls = next((_tls(row) for row in tables["SSL"]), None)
    return SeenOvs(_text(tables["Open_vSwitch"][0]["ovs_version"]), bridges, tls, _socket())


def _tables() -> dict[str, list[Row]]:
    words: list[str] = ["--format=json"]
    for table, columns in COLUMNS.items():
        words += ["--", f"--columns={columns}", "list", table]
    found: dict[str, list[Row]] = {}
    for table, line in zip(COLUMNS, run(ovs_vsctl(*words)).out.splitlines(), strict=True):
        answer = json.loads(line)
        found[table] = [dict(zip(answer["headings"], map(_value, row), strict=True)) for row in answer["data"]]
    return found


def _value(written: object) -> object:
    """Return the plain value. Sets, maps and UUIDs are tagged pairs (RFC 7047, 5.1)."""
    match written:
        case ["set", list(members)]:
            return tuple(_value(member) for member in members)
        case ["map", list(pairs)]:
            return {_value(key): _value(value) for key, value in pairs}
        case ["uuid", str(text)]:
            return text
    return written


def _bridge(
    row: Row,
    ports: Mapping[str, Row],
    interfaces: Mapping[str, Row],
    controllers: Mapping[str, SeenController],
    made: Set[str],
) -> SeenBridge:
    name = _text(row["name"])
    members = [interfaces[uuid] for port in _many(row["ports"]) for uuid in _many(ports[port]["interfaces"])]
    return SeenBridge(
        name=name,
        there=name in made,
        datapath=_text(row["datapath_type"]) or "system",
        dpid=_map(row["other_config"]).get("datapath-id", ""),
        protocols=frozenset(_many(row["protocols"])),
        fail_mode=_text(row["fail_mode"]),
        made=MADE in _map(row["external_ids"]),
        ports=tuple(sorted((_port(each) for each in members if each["name"] != name), key=lambda port: port.name)),
        controllers=tuple(controllers[uuid] for uuid in _many(row["controller"])),
    )


def socket_link() -> Path:
    return Path(os.environ.get("OVS_RUNDIR", "/var/run/openvswitch"), SOCKET_LINK)


def _socket() -> str | None:
    try:
        return str(socket_link().readlink())
    except OSError:
        return None


def _made() -> frozenset[str]:
    """Return the existing bridges. The database also keeps bridges that Open vSwitch could not create."""
    try:
        return frozenset(run(("ovs-appctl", f"--timeout={OVS_ANSWERS_WITHIN_S}", "ofproto/list")).out.split())
    except HostError:  # ovs-vswitchd is dead; its database answers
        return frozenset()


def _port(row: Row) -> SeenPort:
    number = _number(row["ofport"])
    return SeenPort(
        name=_text(row["name"]),
        number=number if number is not None and number > 0 else None,
        requested=_number(row["ofport_request"]),
        error=_text(row["error"]),
        offloads_taken=tuple(_map(row["external_ids"]).get(OFFLOADS, "").split()),
        sysctls_taken=tuple(_map(row["external_ids"]).get(SYSCTLS, "").split()),
        addresses_given=tuple(_map(row["external_ids"]).get(ADDRESSES, "").split()),
    )


def _controller(row: Row) -> SeenController:
    described = {"_uuid", "target", "is_connected", "status"}
    return SeenController(
        uuid=_text(row["_uuid"]),
        target=_text(row["target"]),
        columns={name: _text(value) for name, value in row.items() if name not in described},
        connected=row["is_connected"] is True,
        last_error=_map(row["status"]).get("last_error", ""),
    )


def _tls(row: Row) -> SeenTls:
    return SeenTls(
        _text(row["private_key"]), _text(row["certificate"]), _text(row["ca_cert"]), MADE in _map(row["external_ids"])
    )


def _many(value: object) -> tuple[str, ...]:
    """Return the members. JSON has a set of one as its member."""
    return tuple(str(member) for member in value) if isinstance(value, tuple) else (str(value),)


def _text(value: object) -> str:
    """Return the value of an optional column, which is a set of at most one."""
    return "" if value == () else str(value)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _map(value: object) -> dict[str, str]:
    return {str(key): str(inner) for key, inner in value.items()} if isinstance(value, dict) else {}
