# SPDX-License-Identifier: Apache-2.0
"""An agent that eliminates may end at any moment, and copying adapts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lab.processes.agents import AgentProcess, agent, eliminating
from lab.processes.controller import TREE
from lab.stage.command import run
from tests.system.conftest import GatewayLab
from tests.system.evidence import flows, snooping, until
from topologies.paper import BRIDGE
from topologies.twin import FAR


def copied(bridge: str) -> bool:
    """Return whether a bridge copies all traffic: its table of classes then has no flow for TCP."""
    return not any("tcp" in flow for flow in flows(bridge) if "table=2" in flow)


@contextmanager
def both(twin: GatewayLab) -> Iterator[dict[str, AgentProcess]]:
    with eliminating(twin.controller, "home", "far") as agents:
        assert copied(BRIDGE) and copied(FAR)
        yield agents


def has_program(device: str) -> bool:
    return "xdp" in run("ip", "-d", "link", "show", device).stdout


def test_only_tcp_is_copied_after_an_agent_is_killed(twin: GatewayLab) -> None:
    assert not copied(BRIDGE) and not copied(FAR)
    with both(twin) as agents:
        assert has_program("fe-wifi") and has_program("gw-lte") and has_program("gw-c1")
        agents["far"].kill()
        until(lambda: not copied(BRIDGE), "what goes to far is TCP alone, in copies")
        assert copied(FAR) and not has_program("fe-wifi")


def test_only_tcp_is_copied_while_an_agent_is_stopped(twin: GatewayLab) -> None:
    with both(twin) as agents:
        agents["far"].signal(signal.SIGSTOP)
        until(lambda: not copied(BRIDGE), "TCP alone is copied")
        agents["far"].signal(signal.SIGCONT)
        until(lambda: copied(BRIDGE), "everything is copied again")


def test_a_returning_controller_changes_nothing(twin: GatewayLab) -> None:
    with both(twin), snooping(BRIDGE) as at_home, snooping(FAR) as at_far:
        heard = at_home.number(), at_far.number()
        twin.controller.kill()
        twin.controller.start()
        twin.controller.await_steady()
        until(lambda: all(one["state"] == "here" for one in agents(twin)), "the agents have come back")
        until(lambda: all(one["reported_at"] for one in agents(twin)), "they report")
        for snoop, before in zip((at_home, at_far), heard, strict=True):
            snoop.settled()
            assert snoop.modifications(before) == {}
        assert copied(BRIDGE) and copied(FAR) and has_program("fe-wifi")


def agents(twin: GatewayLab) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = twin.controller.client.get("status")["agents"]
    return found


def test_a_foreign_xdp_program_is_kept_and_reported(twin: GatewayLab) -> None:
    theirs = TREE / "agent" / "portxdp" / "terminal_port.bpf.o"
    run("ip", "link", "set", "fe-lte", "xdpgeneric", "obj", str(theirs), "sec", "xdp")
    with agent(twin.controller, None, "far", "gateway") as at_far:
        until(lambda: "has an XDP program already" in (why_not(twin, "far") or ""), "the reason is reported")
        until(lambda: not copied(BRIDGE), "what goes to far is TCP alone, in copies")
        run("ip", "link", "set", "fe-lte", "xdpgeneric", "off")
        at_far.await_eliminating()
    assert not has_program("fe-lte")


def why_not(twin: GatewayLab, site: str) -> str | None:
    gateways = {one["name"]: one for one in twin.controller.client.get("status")["gateways"]}
    reason: str | None = gateways[site]["copies"]["reason"]
    return reason
