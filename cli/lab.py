# SPDX-License-Identifier: Apache-2.0
"""`bicast lab`: the paper's lab and comparison on this machine."""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cli import OK, Failure, lab_home
from cli.invitation import OUTER_PROC, invitation, with_agents
from controller.edges.config.settings import DEFAULT_API
from controller.edges.http import token as api_token
from controller.edges.http.client import Client
from controller.model.config import WRITTEN
from experiments.paper import paper002
from lab.processes.agents import SETTINGS
from lab.processes.controller import OPENFLOW, TREE, Controller, ControllerFailed, controlled, pin_mode
from lab.results import RESULTS
from lab.stage import isolate, ovs
from lab.stage.command import CommandFailed
from lab.stage.failure import ExperimentFailed
from lab.stage.stage import Stage, raised
from lab.stage.watch import watched
from lab.traffic.web import WebFile, download, web_server
from topologies.paper import LTE_BPS, LTE_LOSS_PERCENT, SERVER, WIFI_BPS, PaperTopo

FILE = TREE / "topologies" / "paper.yaml"
LOGS = RESULTS / "lab"  # of dead processes only
API_TOKEN = "BICAST_LAB_TOKEN"
# At the end of its input this shell script removes the file "$0", unless it has another token by then.
REMOVES = 'read -r token; read -r end; [ "$(cat "$0")" = "$token" ] && rm -f "$0"'
ADDRESS = (DEFAULT_API.host, DEFAULT_API.port)
SIZE_BYTES = 50_000_000
UP_LOSS_PERCENT, DOWN_LOSS_PERCENT = 10, 5


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "lab",
        help="start the paper's lab, run the controller on it, compare bicast off and on; or a home with a relay",
        description="Start the laboratory of paper 002 (client, Open vSwitch, router, server) in its own network "
        "namespaces, run the controller on it, download a file with bicast off and on while Wi-Fi loses "
        f"{UP_LOSS_PERCENT} % up and {DOWN_LOSS_PERCENT} % down, print both times beside the paper's, and keep "
        "running until Ctrl-C, with an agent at each end of its connections and example commands. The system's Open "
        "vSwitch is not touched, and nothing is left behind, however it ends. The lab `home` is a home whose "
        "terminals do not use MPTCP: their connections are relayed, except for one terminal.",
    )
    parser.add_argument(
        "which",
        nargs="?",
        choices=("paper", "home"),
        default=os.environ.get("LAB") or "paper",
        help="paper (the default), or home (like LAB=home)",
    )
    parser.add_argument(
        "--once",
        action="store_true",
        default=os.environ.get("LAB_ONCE") == "1",
        help="end after the comparison (like LAB_ONCE=1)",
    )


def run(args: argparse.Namespace) -> int:
    if not isolate.inside():
        _enter()
    token = os.environ.pop(API_TOKEN, None) or api_token.made()
    with api_token.kept(DEFAULT_API.port, token):
        return lab_home.run(args.once) if args.which == "home" else _paper(args.once)


def _paper(once: bool) -> int:
    topology = PaperTopo(
        wifi_up_loss_percent=UP_LOSS_PERCENT, wifi_down_loss_percent=DOWN_LOSS_PERCENT, congestion_control="cubic"
    )
    settings = "" if once else SETTINGS
    try:
        with (
            socket.create_server(ADDRESS, backlog=128) as within,  # the lab cannot reach the outer socket
            controlled(FILE, settings, listeners=(isolate.FIRST_LISTENER, within.fileno())) as controller,
            raised(topology, controller=OPENFLOW) as net,
            watched((controller.needed(), *ovs.needed()), LOGS),
        ):
            controller.await_steady()
            with web_server(net.machine("server"), SERVER) as web:
                file = web.offer("lab.bin", SIZE_BYTES)
                _compare(net, controller.client, file)
                if not once:
                    _stay(net, controller, file)
    except (CommandFailed, ControllerFailed, ExperimentFailed) as error:
        raise Failure(str(error)) from error
    return OK


def _enter() -> None:
    """Enter a world. People use the API's socket and token, so these come from outside."""
    try:
        listener = socket.create_server(ADDRESS, backlog=128)
    except OSError as error:
        raise Failure(
            f"{DEFAULT_API} is not free for the lab's API ({error.strerror}): stop the controller or lab that "
            "uses it; `make clean` stops a lab of this tree"
        ) from error
    os.environ[OUTER_PROC] = str(fcntl.fcntl(os.open("/proc", os.O_RDONLY), fcntl.F_DUPFD, isolate.CONTROL_ABOVE))
    os.environ[API_TOKEN] = token = api_token.made()
    try:
        isolate.enter(listeners=[listener], meanwhile=_kept(token))
    except (isolate.WorldError, api_token.BadToken) as error:
        raise Failure(str(error)) from error


@contextmanager
def _kept(token: str) -> Iterator[None]:
    """Keep the token for outside clients until this process ends in any way."""
    with (
        api_token.kept(DEFAULT_API.port, token) as path,
        subprocess.Popen(["sh", "-c", REMOVES, path], stdin=subprocess.PIPE, start_new_session=True) as remover,
    ):
        assert remover.stdin is not None
        remover.stdin.write(f"{token}\n".encode())
        remover.stdin.flush()
        yield


def _compare(net: Stage, client: Client, file: WebFile) -> None:
    print(
        f"Wi-Fi {WIFI_BPS / 1e6:.0f} Mbit/s loses {UP_LOSS_PERCENT} % up and {DOWN_LOSS_PERCENT} % down, LTE "
        f"{LTE_BPS / 1e6:.0f} Mbit/s loses {LTE_LOSS_PERCENT:.0f} % and is backup; the server's sender is cubic."
    )
    took = {}
    for how, mode in (("plain", "off"), ("bicast", "bicast")):
        pin_mode(client, mode)
        print(f"Downloading {SIZE_BYTES / 1e6:.0f} MB, bicast {'on' if how == 'bicast' else 'off'} ...", flush=True)
        got = download(net.machine("client"), file.url)
        if got.sha256 != file.sha256:
            raise Failure("the download differs from what the server sent: the comparison is void")
        if not got.mptcp:
            raise Failure("the download did not use MPTCP: the comparison is void")
        if {one["mode"] for one in client.get("status")["terminals"]} != {mode}:
            raise Failure("the client's mode was changed during its download: this row cannot be compared")
        took[how] = got.seconds
    client.set_mode("all", WRITTEN)
    cell = (UP_LOSS_PERCENT, DOWN_LOSS_PERCENT)
    paper = {how: paper002.seconds(how)[cell] for how in took}
    print()
    print(f"{'seconds':>18} {'bicast off':>11} {'bicast on':>11} {'on / off':>9}")
    for what, row in ((f"here, {SIZE_BYTES / 1e6:.0f} MB", took), (f"paper, {paper002.BYTES / 1e6:.0f} MB", paper)):
        print(f"{what:>18} {row['plain']:11.1f} {row['bicast']:11.1f} {row['bicast'] / row['plain']:9.2f}")
    print("\nOne run of each (n = 1); `./bicast experiment transfer` repeats it for all losses and prints the spread.")


def _stay(net: Stage, controller: Controller, file: WebFile) -> None:
    for stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop, signal.default_int_handler)
    link = net.uplink("wifi")
    for way in (link.forward, link.backward):
        way.set(loss_percent=0)  # so that later events have one cause
    with with_agents(net, controller):
        print(f"\n{invitation(net, controller, file)}\n", flush=True)
        signal.pause()
