# SPDX-License-Identifier: Apache-2.0
"""A dead, drained or revoked relay, or a dead gateway agent, leaves a clear state.

A new connection has another path within a second, or none if the fallback is `block`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli.__main__ import main
from experiments.laboratories.home import RELAYED_TERMINALS, SITE, RelayedHome, local, relayed_home
from lab.processes.controller import API
from lab.stage.command import CommandFailed
from lab.traffic.download import Flowing, flowing
from tests.system.conftest import GatewayLab, slowed
from tests.system.evidence import PATIENCE_S, until
from tests.system.test_reload import IN_FORCE, reload
from topologies.home import RELAYS, TERMINALS

ELSEWHERE_S = 1.0
STALLS_S = 0.5  # stalls of this machine
WITHIN_S = [PATIENCE_S, pytest.param(ELSEWHERE_S + STALLS_S, marks=pytest.mark.timed)]
SLOW_BPS = 20_000_000  # rate of Wi-Fi while a download must last
LONG_BYTES = 100_000_000  # 40 s over slow Wi-Fi


@pytest.fixture(scope="module")
def raised() -> Iterator[RelayedHome]:
    """Yield a home with pinned terminals: no armed failover moves them when the machine stalls."""
    with relayed_home(relays=tuple(RELAYS)) as home:
        for terminal in RELAYED_TERMINALS:
            home.pin(terminal, "bicast", "wifi")
        yield home


@pytest.fixture
def home(raised: RelayedHome) -> Iterator[RelayedHome]:
    """Yield the home, and restart dead agents after the test."""
    yield raised
    for agent in raised.agents.values():
        if agent.ended:
            agent.start()
    raised.await_relayed("television")


def carrier(home: RelayedHome) -> str:
    """Return the relay that carries the television's download."""

    def has(relay: str) -> int:
        return sum(one.delivered_bytes for one in home.subflows("television", relay))

    return max(RELAYS, key=has)


def assert_cut(download: Flowing, within_s: float) -> None:
    """Assert that the download ends with a reset, and not like a complete one."""
    until(lambda: download.ended, "its end is told", within_s)
    with pytest.raises(CommandFailed, match="reset"):
        download.received()


def assert_soon(home: RelayedHome, within_s: float, terminal: str, *expected: str) -> None:
    """Wait until a terminal is seen as expected. A request at the very moment may be reset."""
    until(lambda: home.seen(terminal) in expected, f"{terminal} is seen as {expected}", within_s)


@pytest.mark.parametrize("within_s", WITHIN_S)
def test_terminals_use_the_next_relay_then_the_direct_path(home: RelayedHome, within_s: float) -> None:
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
def test_draining_a_relay_breaks_no_connection(home: RelayedHome) -> None:
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
def test_the_fallback_decides_when_the_gateway_agent_is_killed(home: RelayedHome, within_s: float) -> None:
    agent, written = home.agents[SITE], home.controller.file.read_text()
    for fallback, seen in (("direct", TERMINALS["television"]), ("block", "")):
        home.controller.file.write_text(written.replace("fallback: direct", f"fallback: {fallback}"))
        reload(GatewayLab(home.net, home.controller), IN_FORCE)
        agent.kill()
        agent.start()  # the controller sends it the new fallback
        home.await_relayed("television")
        agent.kill()
        assert_soon(home, within_s, "television", seen)
        assert home.seen("guest") == TERMINALS["guest"]
    home.controller.file.write_text(written)
    reload(GatewayLab(home.net, home.controller), IN_FORCE)


def test_a_revoked_gateway_loses_its_relays(raised: RelayedHome) -> None:
    """This must be the last test: the gateway does not return."""
    file = raised.web.offer("long", LONG_BYTES)
    with slowed(raised.net, SLOW_BPS, "wifi"), flowing(raised.machine("television"), file, "tcp") as download:
        raised.controller.client.revoke(SITE)
        assert_cut(download, PATIENCE_S)
    until(lambda: raised.seen("television") == local("television", "wifi"), "it goes directly")
