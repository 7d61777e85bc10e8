# SPDX-License-Identifier: Apache-2.0
"""Relays that die, that are drained and that are refused, and the death of the agent that takes: each ends in a clear
state, and a new connection has another way within a second, or none where none is wanted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli.__main__ import main
from experiments.laboratories.home import RELAYED_TERMINALS, SITE, RelayedHome, local, relayed_home
from lab.processes.controller import API
from lab.stage.command import CommandFailed
from lab.traffic.download import Flowing, flowing
from tests.system.conftest import Home, slowed
from tests.system.evidence import PATIENCE_S, until
from tests.system.test_reload import IN_FORCE, reload
from topologies.home import RELAYS, TERMINALS

ELSEWHERE_S = 1.0
STALLS_S = 0.5  # of this machine
WITHIN_S = [PATIENCE_S, pytest.param(ELSEWHERE_S + STALLS_S, marks=pytest.mark.timed)]
SLOW_BPS = 20_000_000  # of Wi-Fi, while a download must last
LONG_BYTES = 100_000_000  # 40 s by slow Wi-Fi


@pytest.fixture(scope="module")
def raised() -> Iterator[RelayedHome]:
    """No armed failover moves anybody when the machine stalls."""
    with relayed_home(relays=tuple(RELAYS)) as home:
        for terminal in RELAYED_TERMINALS:
            home.pin(terminal, "bicast", "wifi")
        yield home


@pytest.fixture
def home(raised: RelayedHome) -> Iterator[RelayedHome]:
    """Afterwards everybody lives."""
    yield raised
    for agent in raised.agents.values():
        if agent.ended:
            agent.start()
    raised.await_relayed("television")


def carrier(home: RelayedHome) -> str:
    """The relay that carries the television's download."""

    def has(relay: str) -> int:
        return sum(one.delivered_bytes for one in home.subflows("television", relay))

    return max(RELAYS, key=has)


def assert_cut(download: Flowing, within_s: float) -> None:
    """It is told, and does not take what it has for the whole."""
    until(lambda: download.ended, "its end is told", within_s)
    with pytest.raises(CommandFailed, match="reset"):
        download.received()


def assert_soon(home: RelayedHome, within_s: float, terminal: str, *expected: str) -> None:
    """Who asks in the very moment may be told that his connection is over."""
    until(lambda: home.seen(terminal) in expected, f"{terminal} is seen as {expected}", within_s)


@pytest.mark.parametrize("within_s", WITHIN_S)
def test_when_relays_die_one_after_the_other_terminals_go_by_the_next_and_then_directly(
    home: RelayedHome, within_s: float
) -> None:
    file = home.web.offer("long", LONG_BYTES)
    left = dict(RELAYS)
    while left:
        home.await_relayed("television", *left)
        with slowed(home.net, SLOW_BPS, "wifi"), flowing(home.machine("television"), file, "tcp") as download:
            relay = carrier(home)
            home.agents[relay].kill()
            del left[relay]
            assert_soon(home, within_s, "laptop", *(left.values() or [local("laptop", "wifi")]))
            assert_cut(download, within_s)


@pytest.mark.slow
def test_a_relay_that_is_drained_loses_none(home: RelayedHome) -> None:
    file = home.web.offer("long", LONG_BYTES)
    with (
        slowed(home.net, SLOW_BPS, "wifi") as at_full_rate,
        flowing(home.machine("television"), file, "tcp") as download,
    ):
        relay = carrier(home)
        (other,) = RELAYS.keys() - {relay}
        assert main(["relay", "drain", relay, "--api", API]) == 0
        try:
            until(lambda: home.seen("television") == RELAYS[other], f"{other} has what is new")
            assert not download.ended, "it is drained under a download"
            at_full_rate()
            assert download.received().sha256 == file.sha256
        finally:
            assert main(["relay", "resume", relay, "--api", API]) == 0


@pytest.mark.parametrize("within_s", WITHIN_S)
def test_when_the_agent_is_killed_that_takes_new_connections_pass_or_are_reset_as_it_is_written(
    home: RelayedHome, within_s: float
) -> None:
    agent, written = home.agents[SITE], home.controller.file.read_text()
    for fallback, seen in (("direct", TERMINALS["television"]), ("block", "")):
        home.controller.file.write_text(written.replace("fallback: direct", f"fallback: {fallback}"))
        reload(Home(home.net, home.controller), IN_FORCE)
        agent.kill()
        agent.start()  # it is ordered what is written
        home.await_relayed("television")
        agent.kill()
        assert_soon(home, within_s, "television", seen)
        assert home.seen("guest") == TERMINALS["guest"]
    home.controller.file.write_text(written)
    reload(Home(home.net, home.controller), IN_FORCE)


def test_a_gateway_that_is_revoked_is_cut_and_gets_nothing(raised: RelayedHome) -> None:
    """The last one: it does not come back."""
    file = raised.web.offer("long", LONG_BYTES)
    with slowed(raised.net, SLOW_BPS, "wifi"), flowing(raised.machine("television"), file, "tcp") as download:
        raised.controller.client.revoke(SITE)
        assert_cut(download, PATIENCE_S)
    until(lambda: raised.seen("television") == local("television", "wifi"), "it goes directly")
