# SPDX-License-Identifier: Apache-2.0
"""An override moves the gateway and a live MPTCP connection, with a real agent at the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cli.__main__ import main
from experiments.laboratories.two_paths import UPLINKS, Laboratory, laboratory
from lab.processes.agents import SETTINGS, TERMINAL, AgentProcess, agent
from lab.processes.connections import await_paths, paths
from lab.processes.controller import API
from lab.traffic.streaming import streaming
from topologies.paper import SERVER

RELAY = "server"  # its name in paper.yaml
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with laboratory(tmp_path_factory.mktemp("logs"), SETTINGS, lte_backup=False) as raised:
        yield raised


@pytest.fixture
def relay(lab: Laboratory) -> Iterator[AgentProcess]:
    with agent(lab.controller, lab.server, RELAY, "relay") as running:
        running.await_session()
        yield running
    lab.controller.client.set_active(TERMINAL, "auto")


@pytest.fixture
def download(lab: Laboratory, relay: AgentProcess) -> Iterator[None]:
    """Download over both paths, after the relay has reported the connection."""
    with streaming(lab.server, lab.client, SERVER) as stream:
        stream.await_flowing()
        await_paths(lab.server, *UPLINKS.values())
        relay.await_seeing()
        yield
        assert stream.finish().whole


def active(lab: Laboratory) -> set[str]:
    return {one.client for one in paths(lab.server) if not one.backup}


def until(fits: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WITHIN_S
    while not fits() and time.monotonic() < deadline:
        time.sleep(0.1)  # the kernel and the API have no event to wait for
    return fits()


def newest(lab: Laboratory) -> dict[str, Any]:
    course = lab.controller.client.get("terminals", TERMINAL, "decisions")
    assert isinstance(course, dict)
    return dict(course["decisions"][0])


def test_a_switch_moves_gateway_and_relay_and_why_shows_both(
    lab: Laboratory, download: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = lab.controller.client.set_active(TERMINAL, "lte")
    assert answer["messages"] and f"{RELAY} reached 1 connection" in answer["done"][1]
    assert until(lambda: active(lab) == {UPLINKS["lte"]})
    gateway, hand = newest(lab)["hands"]
    assert gateway["done"] and hand["done"] and hand["agent"] == RELAY and hand["connections"] == 1
    monkeypatch.setenv("BICAST_API", API)
    assert main(["why", TERMINAL]) == 0
    told = capsys.readouterr().out
    assert "client is on lte: a person chose it" in told and f"moved by {RELAY}" in told
    lab.controller.client.set_active(TERMINAL, "auto")
    assert until(lambda: active(lab) == set(UPLINKS.values())), "flags of ours are still there"


def test_an_override_survives_a_controller_restart(lab: Laboratory, relay: AgentProcess) -> None:
    lab.controller.client.set_active(TERMINAL, "lte")
    lab.controller.kill()
    lab.controller.start()
    lab.controller.await_steady()
    relay.await_session()
    with streaming(lab.server, lab.client, SERVER) as stream:
        stream.await_flowing()
        await_paths(lab.server, *UPLINKS.values())
        assert until(lambda: active(lab) == {UPLINKS["lte"]})
        assert stream.finish().whole
    assert newest(lab)["reason"] == "it was chosen before the controller restarted"


def test_a_switch_without_an_agent_reports_no_orders(lab: Laboratory) -> None:
    with agent(lab.controller, lab.server, RELAY, "relay") as running:
        running.await_session()
        lab.controller.client.set_active(TERMINAL, "lte")
    assert until(lambda: lab.controller.client.get("status")["agents"][0]["state"] == "gone")
    assert lab.controller.client.get("terminals", TERMINAL)["active_uplink"] == "lte"
    answer = lab.controller.client.set_active(TERMINAL, "wifi")
    assert answer["messages"]
    assert answer["done"][1] == "no agent can move its connections: none of its connections was ordered to move"
    lab.controller.client.set_active(TERMINAL, "auto")
