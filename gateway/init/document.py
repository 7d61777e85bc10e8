# SPDX-License-Identifier: Apache-2.0
"""The gateway.yaml that both machines get."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace

from controller.edges.config.document import NAME
from controller.edges.config.uplinks import TOLD_APART_BY, WIREGUARD_PORT
from controller.model.config import Config
from controller.model.settings import Endpoint
from controller.model.uplink import MOST_OF_A_SITE
from gateway.init.facts import HomeFacts
from gateway.init.made import MARK

OPENFLOW, API, AGENTS, JOIN = 6653, 8653, 8655, 8656
FIRST_TUNNEL = WIREGUARD_PORT
PROBES, FIRST_PROBE = 8620, 8631
EVERY_ADDRESS = "0.0.0.0"
HOME, FAR = "home", "far"
DPIDS = {HOME: 1, FAR: 2}
EXIT_PORT, LAN_PORT = "ve-far", "ve-home"


def tunnel_devices(uplinks: int) -> tuple[str, ...]:
    """Return the names of the WireGuard devices, the same at both ends (agent/tunnel/outer.go)."""
    first = (DPIDS[HOME] & TOLD_APART_BY) * MOST_OF_A_SITE + 1
    return tuple(f"bicast-{first + number}" for number in range(uplinks))


@dataclass(frozen=True, slots=True)
class FarFacts:
    address: str  # as home sees it
    device: str
    own: bool  # the address is the device's; False: a NAT of the provider has it
    datapath: str
    prefix: str = ""  # the /48 of home's LAN; "": without IPv6

    @property
    def listen(self) -> str:
        return self.address if self.own else EVERY_ADDRESS


def new_prefix() -> str:
    """Return a random unique local prefix (RFC 4193)."""
    random = secrets.token_hex(5)
    return f"fd{random[:2]}:{random[2:6]}:{random[6:]}"


def prefix_of(config: Config) -> str:
    """Return the prefix in a gateway.yaml that `init` wrote, so that another run keeps it."""
    for site in config.sites:
        for subnet in site.subnets if site.name == HOME else ():
            for own in subnet.gateways:
                if own.version == 6:
                    return ":".join(own.network.network_address.exploded.split(":")[:3])
    return ""


def at_home(far: FarFacts) -> FarFacts:
    """Return the facts for home's copy: it reaches the controller at the public address."""
    return replace(far, own=True)


def text(home: HomeFacts, far: FarFacts) -> str:
    return "\n".join(_lines(home, far)) + "\n"


def _lines(home: HomeFacts, far: FarFacts) -> Iterator[str]:
    tls = "certificate: /etc/bicast/tls/controller.pem, key: /etc/bicast/tls/controller.key, ca: /etc/bicast/tls/ca.pem"
    openflow, agents, join = (Endpoint(far.listen, port) for port in (OPENFLOW, AGENTS, JOIN))
    yield f"{MARK}. `bicast check /etc/bicast/gateway.yaml` checks it after you changed it."
    yield "controller: # it runs at the far site"
    yield f"  openflow: {{listen: {openflow}, tls: {{{tls}}}}} # home's bridge connects here"
    yield f"  api: {{listen: 127.0.0.1:{API}}} # run `bicast status` on that machine"
    yield f"  agents: {{listen: {agents}, join: {join}}}"
    yield "  state: /var/lib/bicast/state.json"
    yield "sites:"
    yield "  home:"
    yield from _site(HOME, home.datapath)
    yield "    classes: # calls and games are copied always, the rest in mode auto while an uplink is bad"
    yield "      calls: {protocols: [udp], ports: [1024-65535]}"
    yield "    uplinks: # the preferred one first; `budget: 2GB/month` bounds copies where bytes cost money"
    for number, (name, device) in enumerate(home.uplinks, 1):
        outer = f"device: {_quoted(device)}, remote: {far.address}"
        yield f"      {name}: {_tunnel(number, 'tn', outer, far, 2, 1)}"
    yield "    subnets:"
    own = _gateways(home.network, f"{far.prefix}:8::1/64" if far.prefix else "")
    yield f"      lan: {{gateways: {own}, device: {_quoted(home.lan)}, port: {LAN_PORT}}} # home's devices"
    yield "    terminals:"
    yield "      lan: {modes: {calls: bicast}}"
    yield "  far:"
    yield from _site(FAR, far.datapath)
    yield "    mirrors: home"
    yield "    uplinks: # the other ends of home's"
    for number, (name, _) in enumerate(home.uplinks, 1):
        yield f"      {name}: {_tunnel(number, 'tf', f'device: {_quoted(far.device)}', far, 1, 2)}"
    yield "    subnets:"
    yield f"      beyond: {{gateways: {_gateways('10.98.0.1/30', 'fd00:98::1/64' if far.prefix else '')}}}"
    yield "    terminals:"
    inside = ["10.98.0.2", *(["fd00:98::2"] if far.prefix else [])]
    places = ", ".join(f"{{address: {_quoted(each)}, port: {EXIT_PORT}}}" for each in inside)
    yield f"      internet: {{exit: host, addresses: [{places}]}} # home's devices reach the Internet from this machine"


# A home without a far site


def ports_alone(home: HomeFacts) -> list[str]:
    return [f"up-{number}" for number, _ in enumerate(home.uplinks, 1)]


def text_alone(home: HomeFacts) -> str:
    return "\n".join(_lines_alone(home)) + "\n"


def _lines_alone(home: HomeFacts) -> Iterator[str]:
    yield f"{MARK}. `bicast check /etc/bicast/gateway.yaml` checks it after you changed it."
    yield "controller:"
    yield f"  api: {{listen: 127.0.0.1:{API}}} # run `bicast status` here"
    yield "  agents: {} # this machine's own"
    yield "  state: /var/lib/bicast/state.json"
    yield "sites:"
    yield "  home:"
    yield from _site(HOME, home.datapath)
    yield "    reach: [9.9.9.9, 1.1.1.1] # asked over an uplink that brings nothing back; write your own"
    yield "    uplinks: # the preferred one first"
    for (name, device), port in zip(home.uplinks, ports_alone(home), strict=True):
        between = f"10.97.{port.removeprefix('up-')}"
        way = f"addresses: [{between}.1/30], next_hops: [{{address: {between}.2}}]"
        yield f"      {name}: {{kind: host, device: {_quoted(device)}, port: {port}, {way}}}"
    yield "    subnets:"
    yield f"      lan: {{gateways: [{home.network}], device: {_quoted(home.lan)}, port: {LAN_PORT}}} # home's devices"


def _site(name: str, datapath: str) -> Iterator[str]:
    yield f'    dpid: "{DPIDS[name]:016x}"'
    yield f"    bridge: br-{name}"
    if datapath != "system":
        yield f"    datapath: {datapath} # this kernel has no module openvswitch"


def _tunnel(number: int, side: str, outer: str, far: FarFacts, own: int, other: int) -> str:
    """Return the uplink at one end. The addresses inside the tunnel end with `own` and `other`."""
    six = f"fd00:99:{number}::"
    addresses = _gateways(f"10.99.{number}.{own}/30", f"{six}{own}/64" if far.prefix else "")
    hops = [f"10.99.{number}.{other}", *([f"{six}{other}"] if far.prefix else [])]
    next_hops = ", ".join(f"{{address: {_quoted(each)}}}" for each in hops)
    return f"{{kind: tunnel, port: {side}-{number}, {outer}, addresses: {addresses}, next_hops: [{next_hops}]}}"


def _gateways(four: str, six: str) -> str:
    return f"[{four}, {_quoted(six)}]" if six else f"[{four}]"


def _quoted(word: str) -> str:
    return word if NAME.fullmatch(word) else json.dumps(word)
