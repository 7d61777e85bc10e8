# SPDX-License-Identifier: Apache-2.0
"""Run each download twice: kept, and left to policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from experiments.laboratories.home import relayed_home
from experiments.laboratories.two_paths import laboratory
from experiments.relay.moves.plan import DIRECT, RELAYED, SENDERS, Plan
from lab.processes.agents import SETTINGS, TERMINAL, agent
from lab.processes.connections import await_none
from lab.processes.controller import Controller, pin_mode
from lab.stage import command
from lab.stage.stage import Stage
from lab.traffic.web import CURL, WebServer, web_server
from topologies.paper import SERVER, WIFI_BPS

TELEVISION, RELAY, ACTIVE, OTHER = "television", "tokyo", "wifi", "lte"
RTT_MS = 16.0  # either path in the laboratory, as at home
LATE_SHARE = 0.001  # the machine delays so few packets without effect on a rate


@dataclass(frozen=True, slots=True)
class Run:
    route: str
    sender: str
    loss_percent: int
    lte_bps: int
    seconds: int  # per download
    staying_bps: float
    moved_bps: float
    ended_on: str
    moves: int
    stalled: str

    @property
    def cell(self) -> str:
        lte = f"LTE of {self.lte_bps / 1e6:.0f} Mbit/s"
        return f"{self.route}, {self.sender}, Wi-Fi losing {self.loss_percent} %, {lte}"

    @property
    def ratio(self) -> float:
        return self.moved_bps / self.staying_bps

    def __str__(self) -> str:
        return (
            f"{self.cell}: {self.staying_bps / 1e6:.1f} Mbit/s staying, {self.moved_bps / 1e6:.1f} left to policies "
            f"({self.moves} moves, at the end on {self.ended_on})"
        )


@dataclass(frozen=True, slots=True)
class Downloader:
    """A terminal that downloads over one route."""

    terminal: str
    net: Stage
    controller: Controller
    web: WebServer
    curl: tuple[str, ...]
    begin: Callable[[], None]  # on Wi-Fi in mode single, without traces of earlier downloads
    stalled: Callable[[float], str]

    def bps(self, seconds: int) -> float:
        file = self.web.offer("file", WIFI_BPS // 8 * seconds)
        words = (*self.curl, "--max-time", str(seconds), "--output", "/dev/null", "--write-out", "%{size_download}")
        done = self.net.machine(self.terminal).run(*words, file.url, check=False, timeout_s=seconds + 30)
        return int(done.stdout) * 8 / seconds


def carry_out(plan: Plan, logs: Path) -> Iterator[Run]:
    for route, sender, _, loss, lte_bps in product(
        ROUTES, SENDERS, range(plan.rounds), plan.losses_percent, plan.lte_bps
    ):
        # fresh: the controller remembers an uplink's capacity for ten minutes
        with ROUTES[route](sender, logs) as downloader:
            downloader.net.uplink(ACTIVE).backward.set(rate_bps=WIFI_BPS, loss_percent=loss)
            downloader.net.uplink(OTHER).backward.set(rate_bps=lte_bps, loss_percent=0)
            staying_bps, moved_bps, ended_on, moves = _compare(downloader, plan.seconds)
            stalled = downloader.stalled(LATE_SHARE)
            yield Run(route, sender, loss, lte_bps, plan.seconds, staying_bps, moved_bps, ended_on, moves, stalled)


def _compare(downloader: Downloader, seconds: int) -> tuple[float, float, str, int]:
    """Return both rates, the last uplink, and the moves."""
    client, terminal = downloader.controller.client, downloader.terminal
    downloader.begin()
    downloader.stalled(0)  # forget earlier stalls
    staying_bps = downloader.bps(seconds)
    downloader.begin()
    before = len(client.get("terminals", terminal, "decisions")["decisions"])
    client.set_active(terminal, "auto")
    moved_bps = downloader.bps(seconds)
    told = client.get("terminals", terminal, "decisions")
    moves = [each for each in told["decisions"][: len(told["decisions"]) - before] if each["by"] != "people"]
    return staying_bps, moved_bps, told["active_uplink"], len(moves)


@contextmanager
def _relayed(sender: str, _logs: Path) -> Iterator[Downloader]:
    with relayed_home(congestion=sender) as home:

        def begin() -> None:
            home.pin(TELEVISION, "single", ACTIVE)
            home.await_relayed(TELEVISION)
            home.await_store(TELEVISION, RELAY, ACTIVE)
            home.forget()

        yield Downloader(TELEVISION, home.net, home.controller, home.web, CURL, begin, home.stalled)


@contextmanager
def _direct(sender: str, logs: Path) -> Iterator[Downloader]:
    shape = {"rate_bps": WIFI_BPS, "wifi_rtt_ms": RTT_MS, "lte_rtt_ms": RTT_MS, "congestion_control": sender}
    with (
        laboratory(logs, SETTINGS, **shape) as lab,
        agent(lab.controller, lab.client, TERMINAL, "terminal"),
        agent(lab.controller, lab.server, lab.server.name, "relay"),
        web_server(lab.server, SERVER) as web,
    ):

        def begin() -> None:
            for machine in (lab.client, lab.server):  # on a lossy path they take minutes to close
                machine.run("ss", "--kill", "--tcp", "state", "all")
            await_none(lab.server)
            lab.controller.client.set_active(TERMINAL, ACTIVE)
            pin_mode(lab.controller.client, "single")
            command.run("ovs-appctl", "revalidator/wait")
            lab.forget()

        curl = ("mptcpize", "run", *CURL)
        yield Downloader(TERMINAL, lab.net, lab.controller, web, curl, begin, lab.stalled)


ROUTES: Mapping[str, Callable[[str, Path], AbstractContextManager[Downloader]]] = {RELAYED: _relayed, DIRECT: _direct}
