# SPDX-License-Identifier: Apache-2.0
"""Real agents of two sites measure the rates and losses of their paths."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.edges.agentlink.server import Agents
from controller.edges.config import load
from controller.edges.runtime import service as service_of_core
from controller.edges.runtime.service import Service
from controller.edges.state.store import Store
from controller.features.probing import schedule
from controller.features.probing.view import DirectionView, PathHealthView, PathView
from controller.protocol.orders import AgentEffect
from controller.protocol.reports import Role
from lab.processes.agents import hosts
from lab.processes.connections import AGENT, netns
from lab.processes.controller import TREE
from lab.stage.addresses import CONTROLLER
from lab.stage.command import run
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from tests.system.evidence import until
from topologies.natted import NattedTopo
from topologies.twin import RATES_BPS

LOSS = 0.5
# A probe of 1 s with few lengths and short trains.
SHORT = {"STEP": 158, "TRIES_FEW": 8, "PAUSE_NEW_US": 3_000, "TRAINS_FEW": 8, "TRAIN_PACKETS": 24}


@dataclass(frozen=True)
class ProbedLab:
    net: Stage
    service: Service
    agents: Agents

    def path(self, uplink: str) -> PathView:
        return next(path for path in self.service.snapshot().paths if path.uplink == uplink)


@contextmanager
def controlled(place: Path) -> Iterator[tuple[Service, Agents]]:
    """Run the controller in this process, where a test can shorten the probe."""
    path = place / "gateway.yaml"
    written = (TREE / "topologies" / "natted.yaml").read_text(encoding="utf-8")
    path.write_text(written.replace("/run/bicast-lab", str(place)), encoding="utf-8")
    config = load.load(str(path))
    assert config.settings.agents is not None

    def perform(effect: object) -> None:
        if isinstance(effect, AgentEffect):
            agents.perform(effect)

    service = Service(str(path), config, Store(config.settings.state_file), perform)
    agents = Agents(config.settings.agents, service.post, service.bind)
    service.start()
    agents.start()
    try:
        yield service, agents
    finally:
        agents.stop()
        service.stop()


@contextmanager
def agent(agents: Agents, name: str, host: Machine, place: Path) -> Iterator[None]:
    inside = ("nsenter", f"--net={netns(host)}")
    directory = place / name
    directory.mkdir()
    join = ("join", f"{CONTROLLER}:{agents.join.port}", "--name", name, "--directory", str(directory))
    run(AGENT, *join, "--token", agents.invite(name, Role.GATEWAY).token, where=name, prefix=inside)
    process = subprocess.Popen([*inside, AGENT, "run", "--role", "gateway", "--directory", str(directory)])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def measured(place: Path) -> Iterator[ProbedLab]:
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for name, value in SHORT.items():
            patch.setattr(schedule, name, value)
        patch.setattr(schedule, "FIRST_AFTER_S", 0.5)
        patch.setattr(service_of_core, "TICK_S", 0.1)
        net = stack.enter_context(raised(NattedTopo(shaped=True, lte_delay_ms=5.0)))
        service, agents = stack.enter_context(controlled(place))
        for name, host in hosts(net).items():
            stack.enter_context(agent(agents, name, host, place))
        yield ProbedLab(net, service, agents)


@pytest.mark.timed
def test_probes_find_the_rates_of_uplinks(measured: ProbedLab) -> None:
    """The downlink of wifi is like that of lte, so the test does not wait for its measurement."""

    def probed() -> list[tuple[str, DirectionView]]:
        return [(name, way) for name in RATES_BPS for way in measured.path(name).directions if way.ended]

    until(lambda: len(probed()) >= 3, "both ways of one and one of the other have been probed")
    for uplink, way in probed():
        assert way.bps == pytest.approx(RATES_BPS[uplink], rel=0.1), (uplink, way)


def test_losses_of_an_uplink_are_counted(measured: ProbedLab) -> None:
    def health(uplink: str) -> PathHealthView:
        found = measured.path(uplink).health
        assert found is not None
        return found

    until(lambda: all(measured.path(uplink).health for uplink in RATES_BPS), "each uplink has been measured")
    (link,) = (each for each in measured.net.links if each.label == "lte")
    lost, others = health("lte").lost, health("wifi").lost
    link.forward.set(loss_percent=100 * LOSS)
    sent = health("lte").sent
    until(lambda: health("lte").lost - lost >= 20, "twenty packets were lost")
    after = health("lte")
    assert after.lost_there > 0 and (after.lost - lost) / (after.sent - sent) == pytest.approx(LOSS, abs=0.4)
    assert health("wifi").lost - others <= 1
