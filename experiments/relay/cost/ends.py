"""The terminal's and the server's programs, with everything between them standing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.relay.cost.road import RoadTopo
from experiments.relay.cost.ways import NAMES, WEB, Way, raise_ways
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import ROOMY_RECEIVE, Machine
from lab.stage.stage import Stage, raised

TRAFFIC = Path(__file__).with_name("traffic.py")
PATIENCE_S = 600.0
REACHED_WITHIN_S = 10.0
# Those that have ended keep their ports for a minute: here there are as many as there can be, and used again.
PORTS = ("net.ipv4.ip_local_port_range=1024 65535", "net.ipv4.tcp_tw_reuse=1")


@contextmanager
def standing(
    delay_ms: float = 0.0, names: tuple[str, ...] = NAMES, receive: str = ROOMY_RECEIVE
) -> Iterator[tuple[Stage, list[Way]]]:
    """The road with a server that answers, and those of these ways that are installed; it answers by each. `receive`
    are all machines' buffers."""
    with raised(RoadTopo(delay_ms=delay_ms)) as net:
        machines: list[Machine] = net.hosts
        for machine in machines:
            machine.run("sysctl", "--quiet", "--write", receive, *PORTS)
        words = [sys.executable, str(TRAFFIC), "serve", str(WEB)]
        server = net.machine("server").popen(words, stdin=subprocess.PIPE, stderr=None, text=True)
        try:
            if server.stdout is None or server.stdout.readline() != "ready\n":
                raise ExperimentFailed("the server did not begin; its error is above")
            with raise_ways(net, names) as ways:
                for way in ways:
                    _await_answer(net, way)
                yield net, ways
        finally:
            server.kill()
            server.communicate()


def _await_answer(net: Stage, way: Way) -> None:
    deadline = time.monotonic() + REACHED_WITHIN_S
    while not ask(net, "first", way, 1):
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"within {REACHED_WITHIN_S:.0f} s the server answers nobody who comes by {way.name}")


def ask(net: Stage, what: str, way: Way, *words: object) -> list[dict[str, float]]:
    """The terminal's program, and what it found."""
    done = net.machine("terminal").run(*words_of(what, way, *words), timeout_s=PATIENCE_S)
    return [json.loads(line) for line in done.stdout.splitlines()]


def words_of(what: str, way: Way, *words: object) -> list[str]:
    return [sys.executable, str(TRAFFIC), what, way.address, str(way.port), *map(str, words)]
