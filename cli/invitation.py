# SPDX-License-Identifier: Apache-2.0
"""The commands to try in a running lab, and its agents."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli import Failure
from controller.edges.config.settings import DEFAULT_API
from controller.edges.http.token import path_of
from lab.processes.agents import TERMINAL, agent
from lab.processes.controller import Controller
from lab.stage.stage import Stage
from lab.traffic.web import WebFile
from topologies.paper import WIFI_SIDE

OUTER_PROC = "BICAST_OUTER_PROC"  # a descriptor of the machine's /proc; a world has its own
# Below LTE's rate: a busy machine delays packets, and an armed failover would see a dead path.
DOWNLOAD = "curl --silent --limit-rate 500k --noproxy '*' --output /dev/null"
GUEST = "/tmp/bicast-lab-guest"
ENROL = "./bicast enroll guest --role terminal"  # no terminal has this name, so the agent speaks for none
STATUS = (
    f"curl --silent --noproxy '*' -H \"Authorization: Bearer $(cat {path_of(DEFAULT_API.port)})\" "
    f"http://{DEFAULT_API}/api/v1/status"
)
TIMES = 999  # nginx closes a connection after its 1000th request


@contextmanager
def with_agents(net: Stage, controller: Controller) -> Iterator[None]:
    with (
        agent(controller, net.machine(TERMINAL), TERMINAL, "terminal"),
        agent(controller, net.machine("server"), "server", "relay"),
    ):
        yield


def invitation(net: Stage, controller: Controller, file: WebFile) -> str:
    """Return the commands for another shell, in the order of their effects."""
    client, server, router = (seen_outside(net.machine(name).pid) for name in (TERMINAL, "server", "router"))
    brain = seen_outside(controller.process.pid)
    shown = f"./bicast mptcp list --netns /proc/{client}/ns/net"
    return f"""\
Wi-Fi loses nothing from now on. The lab runs until Ctrl-C, with agents at the client and the server. In another
terminal here, in this order; the first is a download to watch, which `kill %1` ends:
  nsenter -t {client} -a mptcpize run {DOWNLOAD} '{file.url}?[1-{TIMES}]' &
  ./bicast agents
  {shown}
  ./bicast switch {TERMINAL} lte
  {shown}
  ./bicast switch {TERMINAL} auto
  sleep 3; ./bicast why {TERMINAL}
Wi-Fi falls silent, an armed failover leaves it, and policies return when it is back (docs/tutorial/lab.md):
  nsenter -t {router} -n ip route replace blackhole {WIFI_SIDE.to}
  sleep 1; ./bicast why {TERMINAL}
  nsenter -t {router} -n ip route replace {WIFI_SIDE.to} via {WIFI_SIDE.via}
Agents connect inside the lab, so an agent joins from there, beside the controller (process {brain}):
  nsenter -t {brain} -n build/$({ENROL} | grep -o 'bicast-agent join .*') --directory {GUEST}
It is run the same way: nsenter -t {brain} -n build/bicast-agent run --directory {GUEST} --netns /proc/{client}/ns/net
Also: {STATUS}
and a shell inside: nsenter -t PID -a bash (client {client}, server {server},
router {router})."""


def seen_outside(pid: int) -> int:
    """Return the PID outside of a process here, the last number of its NSpid."""
    machine = Path(f"/proc/self/fd/{os.environ[OUTER_PROC]}") if OUTER_PROC in os.environ else Path("/proc")
    ours = Path("/proc/self/ns/pid").readlink()
    for process in machine.glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names = re.findall(r"^NSpid:.*\b(\d+)$", (process / "status").read_text(), re.MULTILINE)
            if names == [str(pid)] and (process / "ns/pid").readlink() == ours:
                return int(process.name)
    raise Failure(f"process {pid} of the lab has ended: the lab is broken; end it and start it again")
