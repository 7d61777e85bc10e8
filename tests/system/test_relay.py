# SPDX-License-Identifier: Apache-2.0
"""TCP of terminals without MPTCP uses MPTCP to a relay, over the uplinks of their modes, with real agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from cli.__main__ import main
from experiments.laboratories.home import RELAYED_TERMINALS, RelayedHome, local, relayed_home
from lab.processes.controller import API
from lab.traffic.download import flowing
from lab.traffic.web import download, sha256, upload, web_server
from tests.system.conftest import slowed
from tests.system.evidence import arrivals
from topologies.home import RELAYED, RELAYS, TERMINALS, WEB

TOKYO = RELAYS["tokyo"]
BYTES = 2_000_000
SLOW_BPS = 10_000_000  # rate of each uplink while a download must last
LONG_BYTES = 40_000_000  # half a minute over a slow uplink
LONGER_BYTES = 60_000_000  # still running after two switches by a person
SHARE = 0.9  # of one uplink's packets, the other has at least this share if all are copied
OTHER_PORT = 8080  # outside the relays' allowed ports
# Matches at the uplinks' first router, by terminal and by the uplink that the address belongs to.
COUNTED = {
    f"{terminal}{uplink}": f"meta l4proto tcp ip saddr {local(terminal, uplink)}"
    for terminal in RELAYED_TERMINALS
    for uplink in RELAYED
}


@pytest.fixture(scope="module")
def home() -> Iterator[RelayedHome]:
    """Yield a home with pinned terminals: no armed failover moves them when the machine stalls."""
    with relayed_home() as raised:
        for terminal in RELAYED_TERMINALS:
            raised.pin(terminal, "bicast", "wifi")
        yield raised


@pytest.fixture
def wishes(home: RelayedHome) -> Iterator[RelayedHome]:
    """Yield the home, and restore both terminals after the test."""
    yield home
    for terminal in RELAYED_TERMINALS:
        home.pin(terminal, "bicast", "wifi")


def fetched(home: RelayedHome, terminal: str, size_bytes: int = BYTES) -> None:
    file = home.web.offer("file", size_bytes)
    assert download(home.machine(terminal), file.url, timeout_s=60, mptcp=False).sha256 == file.sha256


def sent(home: RelayedHome, terminal: str) -> Mapping[str, int]:
    """Fetch a file and return the packets of the terminal that reached the Internet over each uplink."""
    with arrivals(home.machine("internet"), *RELAYED, kinds=COUNTED) as came:
        came.since()
        fetched(home, terminal)
        counted = came.since()
    return {device: sum(counted[device, f"{terminal}{uplink}"] for uplink in RELAYED) for device in RELAYED}


def test_downloads_and_uploads_use_mptcp_over_both_uplinks(home: RelayedHome) -> None:
    file = home.web.offer("long", LONG_BYTES)
    with (
        slowed(home.net, SLOW_BPS, *RELAYED) as at_full_rate,
        flowing(home.machine("television"), file, "tcp") as under_way,
    ):
        home.await_active("television", "tokyo", "wifi")
        at_full_rate()
        assert under_way.received().sha256 == file.sha256
    upload(home.machine("television"), home.web.file("long"), home.web.url("up"), timeout_s=60)
    assert sha256(home.web.file("up")) == file.sha256


def test_each_terminal_has_its_own_mode_through_the_proxy(wishes: RelayedHome) -> None:
    wishes.pin("laptop", "single", "lte")
    by = sent(wishes, "television")
    assert SHARE < by["lte"] / by["wifi"] < 1 / SHARE, by
    by = sent(wishes, "laptop")
    assert by["wifi"] < by["lte"] / 20, by  # Wi-Fi carries only the handshake and upkeep of the other subflow


def test_a_switch_moves_connections_of_one_terminal_only(wishes: RelayedHome) -> None:
    for terminal in RELAYED_TERMINALS:
        wishes.pin(terminal, "single", "wifi")
    file = wishes.web.offer("long", LONGER_BYTES)
    with (
        slowed(wishes.net, SLOW_BPS, *RELAYED) as at_full_rate,
        flowing(wishes.machine("television"), file, "tcp") as television,
        flowing(wishes.machine("laptop"), file, "tcp") as laptop,
    ):
        for terminal in RELAYED_TERMINALS:
            wishes.await_active(terminal, "tokyo", "wifi")
        assert main(["switch", "television", "lte", "--api", API]) == 0
        wishes.await_active("television", "tokyo", "lte")
        wishes.await_active("laptop", "tokyo", "wifi")
        assert not television.ended and not laptop.ended, "both must be under way all the time"
        assert main(["switch", "television", "wifi", "--api", API]) == 0
        at_full_rate()
        assert {television.received().sha256, laptop.received().sha256} == {file.sha256}


def test_other_terminals_and_pings_are_not_relayed(home: RelayedHome) -> None:
    assert home.seen("guest") == TERMINALS["guest"]
    assert home.machine("television").run("ping", "-c", "1", "-W", "2", WEB).returncode == 0


def test_a_port_that_the_relay_refuses_is_reached_directly(home: RelayedHome) -> None:
    with web_server(home.machine("web"), WEB, port=OTHER_PORT, mptcp=False) as other:
        assert home.seen("television", other.url("who")) == local("television", "wifi")


def test_relaying_goes_on_without_the_controller(home: RelayedHome) -> None:
    file = home.web.offer("long", LONG_BYTES)
    with (
        slowed(home.net, SLOW_BPS, *RELAYED) as at_full_rate,
        flowing(home.machine("television"), file, "tcp") as under_way,
    ):
        home.controller.kill()
        try:
            assert home.seen("laptop") == TOKYO
            assert not under_way.ended, "the controller must die while it runs"
            at_full_rate()
            fetched(home, "laptop")
            assert under_way.received().sha256 == file.sha256
        finally:
            home.controller.start()
            home.controller.await_steady()
    for agent in home.agents.values():
        agent.await_session()
    assert home.seen("television") == TOKYO
