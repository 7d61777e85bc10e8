# SPDX-License-Identifier: Apache-2.0
"""`bicast lab home`: relayed terminals, and a guest without a relay."""

from __future__ import annotations

import signal
import socket

from cli import OK, Failure
from cli.invitation import STATUS, seen_outside
from controller.edges.config.settings import DEFAULT_API
from experiments.laboratories.home import RelayedHome, relayed_home
from lab.processes.controller import ControllerFailed
from lab.results import RESULTS
from lab.stage import isolate, ovs
from lab.stage.command import CommandFailed
from lab.stage.failure import ExperimentFailed
from lab.stage.watch import watched
from lab.traffic.download import flowing
from lab.traffic.web import WebFile, download, sha256, upload
from topologies.home import WEB
from topologies.paper import LTE_BPS, WIFI_BPS

LOGS = RESULTS / "lab"  # of dead processes only
RELAY, TERMINAL = "tokyo", "television"
SIZE_BYTES = 2_000_000  # plain TCP over this Wi-Fi takes half a minute
LONG_BYTES = 30_000_000
UP_LOSS_PERCENT, DOWN_LOSS_PERCENT = 10, 5


def run(once: bool) -> int:
    try:
        with (
            socket.create_server((DEFAULT_API.host, DEFAULT_API.port), backlog=128) as within,
            relayed_home(
                congestion="bbr",
                listeners=(isolate.FIRST_LISTENER, within.fileno()),
                wifi_up_loss_percent=UP_LOSS_PERCENT,
                wifi_down_loss_percent=DOWN_LOSS_PERCENT,
                congestion_control="cubic",
            ) as home,
            watched((home.controller.needed(), *ovs.needed()), LOGS),
        ):
            home.pin(TERMINAL, "bicast", "wifi")  # a stalled machine looks like dead Wi-Fi
            _compare(home)
            if not once:
                _stay(home)
    except (CommandFailed, ControllerFailed, ExperimentFailed) as error:
        raise Failure(str(error)) from error
    return OK


def _compare(home: RelayedHome) -> None:
    print(
        f"Wi-Fi {WIFI_BPS / 1e6:.0f} Mbit/s loses {UP_LOSS_PERCENT} % up and {DOWN_LOSS_PERCENT} % down, beside it LTE "
        f"{LTE_BPS / 1e6:.0f} Mbit/s.\nThe terminals and the web server ({WEB}) use plain TCP with cubic; the "
        f"relay {RELAY} is halfway and sends with bbr.\n"
    )
    print(f"{'seconds for ' + f'{SIZE_BYTES / 1e6:.0f} MB':>36} {'download':>9} {'upload':>9}")
    file = home.web.offer("lab.bin", SIZE_BYTES)
    for terminal, how in (("guest", "without bicast, over Wi-Fi"), (TERMINAL, f"bicast, through {RELAY}")):
        print(f"{terminal}, {how}".rjust(36), end="", flush=True)
        print(f" {_down(home, terminal, file):9.1f}", end="", flush=True)
        print(f" {_up(home, terminal, file):9.1f}", flush=True)
    before = home.arrived()
    file = home.web.offer("long.bin", LONG_BYTES)
    with flowing(home.machine(TERMINAL), file, "tcp") as under_way:
        subflows = home.await_active(TERMINAL, RELAY, "wifi")
        if under_way.received().sha256 != file.sha256:
            raise Failure("the download differs from what the server sent: the comparison is void")
    sent = {uplink: count - before[uplink] for uplink, count in home.arrived().items()}
    carried = " and ".join(f"{one.client} ({'backup' if one.backup else 'active'})" for one in subflows)
    print(f"\nThe {TERMINAL} downloads {LONG_BYTES / 1e6:.0f} MB: at {RELAY} one MPTCP connection from {carried}.")
    print(f"Packets that the home sent meanwhile: {' and '.join(f'{n} by {name}' for name, n in sent.items())}.")


def _down(home: RelayedHome, terminal: str, file: WebFile) -> float:
    got = download(home.machine(terminal), file.url, mptcp=False)
    if got.sha256 != file.sha256:
        raise Failure("the download differs from what the server sent: the comparison is void")
    return got.seconds


def _up(home: RelayedHome, terminal: str, file: WebFile) -> float:
    seconds = upload(home.machine(terminal), home.web.file("lab.bin"), home.web.url("up.bin"))
    if sha256(home.web.file("up.bin")) != file.sha256:
        raise Failure("the upload differs from what the terminal sent: the comparison is void")
    return seconds


def _stay(home: RelayedHome) -> None:
    for stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop, signal.default_int_handler)
    television = seen_outside(home.machine(TERMINAL).pid)
    print(
        f"""
The lab runs until Ctrl-C. In another terminal here:
  ./bicast relay list
  ./bicast why --relay {WEB}
  nsenter -t {television} -n curl --silent --noproxy '*' http://{WEB}/who
  ./bicast switch {TERMINAL} lte
  ./bicast relay drain {RELAY}
  nsenter -t {television} -n curl --silent --noproxy '*' http://{WEB}/who
Also: {STATUS}""",
        flush=True,
    )
    signal.pause()
