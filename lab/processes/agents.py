# SPDX-License-Identifier: Apache-2.0
"""Run a real agent on a machine of the lab."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from lab.processes.connections import AGENT, netns
from lab.processes.controller import LOOK_EVERY_S, Controller
from lab.stage import command, isolate
from lab.stage.addresses import CONTROLLER, SITE_HOSTS
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.stage.stage import Stage

Found = TypeVar("Found")
TERMINAL = "client"
# makes the controller serve agents
SETTINGS = f", agents: {{directory: {isolate.RUN_DIRECTORY / 'agents'}}}"
# SETTINGS for agents on other hosts: they reach these listeners over TCP. The wildcard address works before the lab's
# network has the controller's address.
SETTINGS_FOR_HOSTS = SETTINGS.replace("}", ', listen: "0.0.0.0:8655", join: "0.0.0.0:8656"}')
LEASES = isolate.RUN_DIRECTORY / "leases"  # the world's own, apart from those of an installed `bicast lan`
NO_HOSTS: Mapping[str, Machine] = MappingProxyType({})


class AgentProcess:
    def __init__(self, controller: Controller, name: str, words: list[str], log: Path) -> None:
        self._controller, self._name, self._words, self._log = controller, name, words, log

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(self._words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.await_session()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def await_armed(self, watched: str) -> int:
        """Return the threshold in ms without progress."""

        def armed() -> int | None:
            known = self._controller.client.get("terminals", TERMINAL, "decisions")["armed_failovers"]
            good = [each for each in known if each["agent"] == self._name and not each["refused"]]
            return next((int(each["no_progress_ms"]) for each in good if each["watched"] == watched), None)

        return self._await(armed, f"is armed for uplink {watched}")

    def await_session(self) -> None:
        """Wait for the session; from then on the agent's path manager handles new connections."""
        self._await(lambda: self._status().get("state") == "here" or None, "is in session")

    def await_eliminating(self) -> None:
        def eliminates() -> bool | None:
            gateways = self._controller.client.get("status")["gateways"]
            return next((True for one in gateways if one["name"] == self._name and one["copies"]["eliminated"]), None)

        self._await(eliminates, "eliminates copies")

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _status(self) -> dict[str, Any]:
        agents: list[dict[str, Any]] = self._controller.client.get("status")["agents"]
        return next((one for one in agents if one["name"] == self._name), {})

    def await_seeing(self) -> None:
        self._await(lambda: TERMINAL in self._status().get("terminals", ()) or None, f"reports terminal {TERMINAL}")

    def _await(self, look: Callable[[], Found | None], what: str) -> Found:
        within_s = self._controller.PATIENCE_S
        deadline = time.monotonic() + within_s
        while (found := look()) is None:
            if self.ended or time.monotonic() > deadline:
                raise ExperimentFailed(
                    f"agent {self._name}: expected that it {what} within {within_s:.0f} s; the end of its log: "
                    f"{self._log.read_text().strip()[-500:]}"
                )
            time.sleep(LOOK_EVERY_S)
        return found


@contextmanager
def agent(
    controller: Controller, machine: Machine | None, name: str, role: str, host: Machine | None = None
) -> Iterator[AgentProcess]:
    """Run an agent in the namespace of `machine`, or with None in the world's root namespace, which has the bridges.

    The agent connects to the controller from the root namespace. With a `host` it sends its packets from there, reaches
    the controller at natted.py's address, and controls the root namespace.
    """
    invitation = controller.client.invite(name, role)
    with tempfile.TemporaryDirectory(prefix="agent-", dir=isolate.RUN_DIRECTORY) as place:
        where = invitation["join"] if host is None else f"{CONTROLLER}:{invitation['join'].rpartition(':')[2]}"
        join_words = ("join", where, "--name", name, "--token", invitation["token"], "--directory", place)
        command.run(AGENT, *join_words, where=name, prefix=_netns_prefix(host))
        run = (
            AGENT,
            "run",
            "--role",
            role,
            "--directory",
            place,
            "--leases",
            str(LEASES),
            *_netns_options(machine, host),
        )
        one = AgentProcess(
            controller, name, [*_netns_prefix(host), *_with_constant_load(Path(place)), *run], Path(place) / "log"
        )
        try:
            one.start()
            yield one
        finally:
            one.stop()


def _netns_prefix(host: Machine | None) -> tuple[str, ...]:
    return () if host is None else ("nsenter", f"--net={netns(host)}")


def _with_constant_load(directory: Path) -> tuple[str, ...]:
    """Return a command prefix that shows the agent a constant load: a relay would report the test machine's."""
    stat = directory / "stat"
    stat.write_bytes(Path("/proc/stat").read_bytes())
    return ("unshare", "--mount", "sh", "-ec", 'mount --bind "$0" /proc/stat; exec "$@"', str(stat))


def _netns_options(machine: Machine | None, host: Machine | None) -> tuple[str, ...]:
    if machine is not None:
        return ("--netns", netns(machine))
    return () if host is None else ("--netns", f"/proc/{os.getpid()}/ns/net")


def hosts(net: Stage) -> Mapping[str, Machine]:
    return {site: net.machine(name) for site, name in SITE_HOSTS.items()}


@contextmanager
def eliminating(
    controller: Controller, *sites: str, hosts: Mapping[str, Machine] = NO_HOSTS
) -> Iterator[dict[str, AgentProcess]]:
    """Run agents at these sites; yield them by name once they eliminate copies."""
    with ExitStack() as running:
        agents = {
            name: running.enter_context(agent(controller, None, name, "gateway", hosts.get(name))) for name in sites
        }
        for each in agents.values():
            each.await_eliminating()
        controller.await_steady()
        yield agents
