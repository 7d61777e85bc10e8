# SPDX-License-Identifier: Apache-2.0
"""The installed agent against the installed controller: join, report, revoke, join again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.edges.http.client import Client
from tests.system.test_frameworks import PYTHONS

TREE = Path(__file__).resolve().parents[4]
PATIENCE_S = 60.0
SITE = """\
controller:
  openflow: {{listen: "127.0.0.1:{0}"}}
  api: {{listen: "127.0.0.1:{1}"}}
  agents: {{listen: "127.0.0.1:{2}", join: "127.0.0.1:{3}", directory: agents}}
  state: state.json
sites:
  home:
    dpid: "0000000000000001"
    uplinks:
      wifi: {{port: wifi0, addresses: [192.168.100.2/24], next_hops: [{{address: 192.168.100.1}}]}}
    subnets:
      lan: {{gateways: [10.1.0.1/24]}}
    terminals:
      phone: {{addresses: [{{address: 10.1.0.7, port: lan0}}]}}
"""


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


class AgentHost:
    """A controller, and the agent of `phone`."""

    def __init__(self, directory: Path, python: str) -> None:
        self.directory = directory
        ports = free_ports(4)
        (directory / "gateway.yaml").write_text(SITE.format(*ports))
        self.api = f"127.0.0.1:{ports[1]}"
        self.running: list[subprocess.Popen[bytes]] = []
        self.controller = self._begin("controller", python, "-m", "controller", "gateway.yaml")
        self.until(lambda: "listening for agents" in self.log("controller"))

    def _begin(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.log").open("wb") as log:
            begun = subprocess.Popen(words, cwd=self.directory, env={**os.environ, "PYTHONPATH": str(TREE)}, stderr=log)
        self.running.append(begun)
        return begun

    def bicast(self, *words: str) -> str:
        environment = {**os.environ, "BICAST_API": self.api}
        done = subprocess.run([TREE / "bicast", *words], env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    def enrol(self) -> str:
        """Return the command that `enroll` prints for the agent's host."""
        (line,) = [each for each in self.bicast("enroll", "phone").splitlines() if "bicast-agent join" in each]
        return f"{line} --directory phone"

    def join(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run the line as printed. The agent need not be installed."""
        return subprocess.run(["sh", "-c", line], cwd=self.directory, capture_output=True, text=True)

    def served(self) -> subprocess.Popen[bytes]:
        """Run the agent until its report has arrived."""
        agent = self._begin("phone", str(TREE / "build/bicast-agent"), "run", "--directory", "phone")
        self.until(self.reports)
        return agent

    def reports(self) -> bool:
        agents = Client(f"http://{self.api}").get("status")["agents"]
        return any(one["name"] == "phone" and one["reports"] and one["state"] == "here" for one in agents)

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()

    def until(self, so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not so():
            assert time.monotonic() < deadline, {each.name: each.read_text() for each in self.directory.glob("*.log")}
            time.sleep(0.05)


@pytest.fixture(params=PYTHONS)
def agent_host(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[AgentHost]:
    agent_host = AgentHost(tmp_path, request.param)
    yield agent_host
    for each in agent_host.running:
        each.kill()
        each.wait()


def test_agent_joins_is_revoked_and_joins_again(agent_host: AgentHost) -> None:
    line = agent_host.enrol()
    joined = agent_host.join(line)
    assert joined.returncode == 0 and "joined as phone" in joined.stdout, joined.stderr
    replayed = agent_host.join(line)
    assert replayed.returncode == 1 and "was already used" in replayed.stderr
    agent = agent_host.served()
    assert "127.0.0.1:" in agent_host.bicast("agents")

    assert "phone is revoked; its stream, from 127.0.0.1:" in agent_host.bicast("revoke", "phone")
    agent_host.until(lambda: "the certificate of phone was revoked" in agent_host.log("phone"))
    assert agent.poll() is None, "it is disconnected, but keeps running"
    agent_host.until(lambda: not agent_host.reports())
    agent.terminate()
    agent.wait()

    assert agent_host.join(agent_host.enrol()).returncode == 0
    agent_host.served()


def test_agent_stops_even_if_the_controller_is_frozen(agent_host: AgentHost) -> None:
    assert agent_host.join(agent_host.enrol()).returncode == 0
    phone = agent_host.served()
    agent_host.controller.send_signal(signal.SIGSTOP)
    phone.terminate()
    assert phone.wait(PATIENCE_S) == 0
    agent_host.controller.send_signal(signal.SIGCONT)
