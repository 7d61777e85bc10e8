# SPDX-License-Identifier: Apache-2.0
"""A real agent on a machine of the lab: enrolled, joined and running until the block ends."""

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
# The part of gateway.yaml that makes the controller serve agents
SETTINGS = f", agents: {{directory: {isolate.RUN_DIRECTORY / 'agents'}}}"
# The same for agents on hosts of their own, whether or not the world has the controller's address yet
SETTINGS_FOR_HOSTS = SETTINGS.replace("}", ', listen: "0.0.0.0:8655", join: "0.0.0.0:8656"}')
IN_THE_WORLD: Mapping[str, Machine] = MappingProxyType({})


class Agent:
    def __init__(self, controller: Controller, name: str, words: list[str], log: Path) -> None:
        self._controller, self._name, self._words, self._log = controller, name, words, log

    def start(self) -> None:
        """Again, too, when it was killed. It is in session when this returns."""
        with self._log.open("ab") as said:
            self._process = subprocess.Popen(self._words, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        self.await_session()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def await_armed(self, watched: str) -> int:
        """Until it would leave this uplink by itself; after how many milliseconds without progress it would."""

        def armed() -> int | None:
            known = self._controller.client.get("terminals", TERMINAL, "decisions")["reflexes"]
            good = [each for each in known if each["agent"] == self._name and not each["refused"]]
            return next((int(each["no_progress_ms"]) for each in good if each["watched"] == watched), None)

        return self._await(armed, f"is armed against the death of {watched}")

    def await_session(self) -> None:
        """From then on connections are made under the path manager that it holds."""
        self._await(lambda: self._known().get("state") == "here" or None, "is in session")

    def await_eliminating(self) -> None:
        """At the site of its name."""

        def does() -> bool | None:
            gateways = self._controller.client.get("status")["gateways"]
            return next((True for one in gateways if one["name"] == self._name and one["copies"]["eliminated"]), None)

        self._await(does, "eliminates copies")

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _known(self) -> dict[str, Any]:
        agents: list[dict[str, Any]] = self._controller.client.get("status")["agents"]
        return next((one for one in agents if one["name"] == self._name), {})

    def await_seeing(self) -> None:
        """Until it is in session, and has reported of the terminal."""

        self._await(lambda: TERMINAL in self._known().get("terminals", ()) or None, f"tells of {TERMINAL}")

    def _await(self, look: Callable[[], Found | None], what: str) -> Found:
        within_s = self._controller.PATIENCE_S
        deadline = time.monotonic() + within_s
        while (found := look()) is None:
            if self.ended or time.monotonic() > deadline:
                raise ExperimentFailed(
                    f"it is not so within {within_s:.0f} s that agent {self._name} {what}; the last that it said: "
                    f"{self._log.read_text().strip()[-500:]}"
                )
            time.sleep(LOOK_EVERY_S)  # the API has no event to wait for
        return found


@contextmanager
def agent(
    controller: Controller, machine: Machine | None, name: str, role: str, host: Machine | None = None
) -> Iterator[Agent]:
    """It reads and orders the machine's namespace, and reaches the controller by the world's own. None: that one is its
    namespace too, where bridges are. It lives in a `host` where what it sends itself is to leave from there: the
    controller is then at natted.py's address, and the world's own namespace is the one that it orders."""
    invited = controller.client.invite(name, role)
    with tempfile.TemporaryDirectory(prefix="agent-", dir=isolate.RUN_DIRECTORY) as place:
        where = invited["join"] if host is None else f"{CONTROLLER}:{invited['join'].rpartition(':')[2]}"
        joining = ("join", where, "--name", name, "--token", invited["token"], "--directory", place)
        command.run(AGENT, *joining, where=name, prefix=_inside(host))
        run = (AGENT, "run", "--role", role, "--directory", place, *_ordering(machine, host))
        one = Agent(controller, name, [*_inside(host), *_idle(Path(place)), *run], Path(place) / "log")
        try:
            one.start()
            yield one
        finally:
            one.stop()


def _inside(host: Machine | None) -> tuple[str, ...]:
    return () if host is None else ("nsenter", f"--net={netns(host)}")


def _idle(directory: Path) -> tuple[str, ...]:
    """Show the agent a /proc/stat that stands still: a relay must not take the test machine's load for its own."""
    stat = directory / "stat"
    stat.write_bytes(Path("/proc/stat").read_bytes())
    return ("unshare", "--mount", "sh", "-ec", 'mount --bind "$0" /proc/stat; exec "$@"', str(stat))


def _ordering(machine: Machine | None, host: Machine | None) -> tuple[str, ...]:
    if machine is not None:
        return ("--netns", netns(machine))
    return () if host is None else ("--netns", f"/proc/{os.getpid()}/ns/net")


def hosts(net: Stage) -> Mapping[str, Machine]:
    """Of natted.py, where each site's agent lives."""
    return {site: net.machine(name) for site, name in SITE_HOSTS.items()}


@contextmanager
def eliminating(
    controller: Controller, *sites: str, hosts: Mapping[str, Machine] = IN_THE_WORLD
) -> Iterator[dict[str, Agent]]:
    """Agents at these sites, by name, each of which lets one copy of each packet pass when this begins."""
    with ExitStack() as running:
        agents = {
            name: running.enter_context(agent(controller, None, name, "gateway", hosts.get(name))) for name in sites
        }
        for each in agents.values():
            each.await_eliminating()
        controller.await_steady()
        yield agents
