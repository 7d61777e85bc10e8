# SPDX-License-Identifier: Apache-2.0
"""docs/explanation/security.md lists permissions: the tests try each cell of its table and check the named tests."""

from __future__ import annotations

import re
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import pytest

from api import agent_pb2 as pb
from controller.edges.agentlink import decode
from controller.edges.trust.refusals import Reason, Refused
from controller.features.relays import requests
from controller.model.in_force import InForce
from controller.model.overrides import Overrides, RelayOverride
from controller.protocol.enrolment import Binding
from controller.protocol.reports import Role
from tests.controller import sites
from tests.controller.features.peer_sites.test_manager import PeerSitePair
from tests.controller.features.peer_sites.test_tunnels import tunnelled
from tests.controller.features.relays.test_manager import RelayedHome, credential
from tests.controller.features.steering.test_manager import LTE, RELAY_ADDRESS, WIFI, SteeringScenario, prefers
from tests.fakes.host import FakeConnection, FakeHost
from tests.fakes.relays import FakeGateway, FakeProber, FakeRelay, Internet

TREE = Path(__file__).resolve().parents[2]
PAGE = (TREE / "docs/explanation/security.md").read_text(encoding="utf-8")
WORDS = {Role.TERMINAL: pb.ROLE_TERMINAL, Role.GATEWAY: pb.ROLE_GATEWAY, Role.RELAY: pb.ROLE_RELAY}
PHONE = "10.1.0.7"


class Actor(NamedTuple):
    name: str
    role: Role

    @property
    def serves(self) -> bool:
        return self.role is Role.RELAY


WHO = {
    "terminal's agent": Actor("client", Role.TERMINAL),
    "guest": Actor("guest", Role.TERMINAL),
    "gateway's agent": Actor("home", Role.GATEWAY),
    "listed server": Actor("www", Role.RELAY),
    "other server": Actor("elsewhere", Role.RELAY),
    "relay": Actor("oslo", Role.RELAY),
}
OSLO = RelayOverride(ip_address(RELAY_ADDRESS), 443)


def table(first: str) -> list[list[str]]:
    """Return the cells of the table with this first heading, including the headings."""
    after = PAGE[PAGE.index(f"| {first} |") :].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in after.splitlines()]
    return [rows[0], *rows[2:]]


def scene() -> SteeringScenario:
    written = {**sites.document(), "servers": ["www"]}
    return SteeringScenario(InForce(Overrides(relays={"oslo": OSLO})), written=written)


def says_hello_as_another(who: Actor) -> str:
    binding = Binding(who.role, who.name if who.role is Role.TERMINAL else None)
    said = set()
    for role in set(Role) - {who.role}:
        try:
            decode.opened(1, who.name, "192.0.2.1:5", pb.Hello(protocol=1, role=WORDS[role]), binding)
        except Refused as refused:
            said.add("no" if refused.reason is Reason.ROLE else str(refused))
        else:
            said.add("yes")
    return said.pop() if len(said) == 1 else str(said)


def loses(connection: FakeConnection, serves: bool) -> None:
    """Send data for a second on the first path. A third is lost, as counted by the agent's own end."""
    first = connection.subflows[0]
    end = first.server if serves else first.terminal
    end.segments_sent += 100
    end.retransmits += 30
    end.bytes_acked += 70_000


def moves(who: Actor, witness: bool, *addresses: str) -> bool:
    """Return whether losses that only this agent reports move a terminal. `addresses` are of the terminal."""
    one = scene()
    theirs = FakeConnection.between(RELAY_ADDRESS, *addresses)
    if witness:
        terminal = "client" if WIFI in addresses else "phone"
        own = FakeHost(terminal, Role.TERMINAL, addresses, [theirs])
        one.join(own)
    host = FakeHost(who.name, who.role, (RELAY_ADDRESS,) if who.serves else addresses, [theirs])
    one.join(host)
    before = dict(one.core.decisions.active)
    for _ in range(8):
        loses(theirs, who.serves)
        one.second()
    return one.core.decisions.active != before


def counts(who: Actor, *addresses: str) -> str:
    if moves(who, False, *addresses):
        return "yes"
    return "with a witness" if who.serves and moves(who, True, *addresses) else "no"


def beside_the_own_agent(who: Actor) -> tuple[FakeHost, bool]:
    """Return the agent after a move of the terminal, and whether it held a failover before."""
    one = scene()
    one.connection(RELAY_ADDRESS)
    if who.name != "client":
        one.client()
    host = FakeHost(who.name, who.role, (RELAY_ADDRESS,) if who.serves else (WIFI, LTE), one.world)
    one.join(host)
    one.downloads(3)
    was_armed = bool(host.armed)
    one.switch_to("lte")
    return host, was_armed


def is_ordered_to_move(who: Actor) -> str:
    return "yes" if prefers(beside_the_own_agent(who)[0]) else "no"


def holds_failover(who: Actor) -> str:
    return "yes" if beside_the_own_agent(who)[1] else "no"


def makes_tunnels(who: Actor) -> str:
    agent = PeerSitePair(tunnelled()).agent(who.name, role=who.role)
    return "yes" if agent.tunnels is not None and agent.tunnels.tunnels else "no"


def eliminates(who: Actor) -> str:
    return "yes" if PeerSitePair().agent(who.name, role=who.role).order is not None else "no"


def relayed(who: Actor) -> FakeProber:
    """Return the agent in a home with relaying, and with a relay that has joined."""
    world = RelayedHome()
    world.vouched = {who.name: replace(credential(who.name), role=who.role), "tokyo": credential("tokyo")}
    world.vouch("tokyo")
    world.add("tokyo")
    world.wish(requests.wished("oslo", OSLO))
    makes = {Role.GATEWAY: FakeGateway, Role.RELAY: FakeRelay}.get(who.role)
    host = makes(who.name, Internet()) if makes else FakeProber(who.name, who.role, Internet())
    world.join(host)
    world.seconds(2)
    return host


def takes(who: Actor) -> str:
    host = relayed(who)
    return "yes" if isinstance(host, FakeGateway) and host.order.relays else "no"


def is_a_relay(who: Actor) -> str:
    host = relayed(who)
    return "yes" if isinstance(host, FakeRelay) and host.order.port else "no"


TRIED = {
    "say hello with a role that is not its certificate's": says_hello_as_another,
    "have its reports of the terminal's connections count": lambda who: counts(who, WIFI, LTE),
    "have its reports of another terminal's connections count": lambda who: counts(who, PHONE),
    "be ordered to move the terminal's connections where the terminal's own agent is connected": is_ordered_to_move,
    "hold the armed failover of the terminal where the terminal's own agent is connected": holds_failover,
    "make the tunnels of the site, with their keys": makes_tunnels,
    "eliminate copies at the site": eliminates,
    "carry the site's terminals to relays, and learn which relays there are": takes,
    "be a relay, with a certificate that gateways accept": is_a_relay,
}
HEADINGS, *ROWS = table("action")


def test_each_action_of_the_page_is_tried() -> None:
    assert HEADINGS[1:] == list(WHO) and [row[0] for row in ROWS] == list(TRIED)


@pytest.mark.parametrize(
    ("action", "who", "told"),
    [(row[0], who, cell) for row in ROWS for who, cell in zip(HEADINGS[1:], row[1:], strict=True)],
)
def test_permissions_are_as_in_the_page(action: str, who: str, told: str) -> None:
    assert TRIED[action](WHO[who]) == told


def test_each_port_of_the_page_names_an_existing_test() -> None:
    for port, _, test in table("port")[1:]:
        path = TREE / test.strip("`")
        assert path.is_file(), f"{port}: {path}"
        assert re.search(r"def test_|func Test", path.read_text(encoding="utf-8")), port
