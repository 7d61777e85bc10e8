# SPDX-License-Identifier: Apache-2.0
"""Sessions of agents: one at a time for each name, and nothing is heard of a session that has ended."""

from __future__ import annotations

from dataclasses import replace

from controller.agents.registry import AgentRegistry
from controller.core.core import Core
from controller.model.in_force import InForce
from controller.protocol.orders import Tickets
from controller.protocol.reports import AgentClosed, AgentOpened, Cost, PathManager, Reported, Role
from tests.controller import sites

CONFIG = sites.loaded(sites.document())
OPENED = AgentOpened(1, "home", "192.0.2.1:4000", Role.GATEWAY, PathManager.KERNEL, "", (), ())
REPORT = Reported(1, 1, 1000, (), Cost(0, 0))


def test_late_message_of_an_ended_session_is_of_no_agent() -> None:
    registry = AgentRegistry(CONFIG, Tickets())
    agent = registry.on_event(OPENED, 0.0)
    assert agent is not None and registry.on_event(REPORT, 1.0) is agent
    assert registry.on_event(AgentClosed(1, "gone"), 2.0) is agent and not agent.connected
    assert registry.on_event(REPORT, 3.0) is None and agent.reports == 1 and registry.gateway("home") is None


def test_new_session_ends_the_one_before() -> None:
    core = Core(CONFIG, InForce(), 0.0)
    for session in (1, 2):
        list(core.handle(replace(OPENED, session=session), float(session)))
    assert core.agents.of(1) is None and core.agents.of(2) is core.agents.gateway("home")
    list(core.handle(AgentClosed(1, "its connection broke"), 3.0))
    assert core.agents.known["home"].connected
