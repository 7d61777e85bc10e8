# SPDX-License-Identifier: Apache-2.0
"""`bicast experiment NAME`: one of the papers' experiments again, or the bench.

An experiment is a module that offers `run(args) -> int`; `args` has full and json. It enters a world of its own,
says how far it is on stderr, and prints what came out on stdout: tables, or with --json one document.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from cli import Failure, undisturbed
from lab.processes.controller import ControllerFailed
from lab.stage.command import CommandFailed
from lab.stage.failure import ExperimentFailed
from lab.stage.isolate import WorldError


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment that is not loaded yet. Its durations hold for two idle cores."""

    module: str
    summary: str
    measures: str
    takes: str  # what is run unless more is asked for, and how long that lasts
    full: str | None = None  # the same of --full, where there is more

    @property
    def lasts(self) -> str:
        return self.takes if self.full is None else f"--quick: {self.takes} --full: {self.full}"


EXPERIMENTS = {
    "transfer": Experiment(
        "experiments.transfer",
        "paper 002, tables 5 and 6, figures 4 to 9: downloads over losses of Wi-Fi",
        "Downloads a file in the paper's laboratory while Wi-Fi loses packets, plain and bicast, with senders of "
        "cubic and bbr, LTE as backup and not. Prints the seconds beside the paper's, the ratios with their spread, "
        "and whether what the paper promises is met.",
        "the corners of the paper's grid of losses, 52 downloads of 50 MB: some 8 minutes.",
        "the whole grid, 500 MB, three rounds of some 6 hours; after Ctrl-C the next --full goes on from there.",
    ),
    "capture": Experiment(
        "experiments.capture",
        "paper 002, tables 3 and 4: what rides twice, seen at every machine",
        "A server and a client talk a word at a time over MPTCP; in the middle the client's active path is switched. "
        "Packets are captured at the client, the router and the server, and each of the paper's claims on what rides "
        "twice is held against them. The captures stay, for wireshark.",
        "some 10 seconds.",
    ),
    "switching": Experiment(
        "experiments.switching",
        "a live download switched between two paths: the cost, how soon it acts",
        "Switches a live download softly from path to path, 20 times at 0.5 s, by each hand (`bicast mptcp switch`, "
        "and `bicast switch` with an agent at the client or at the server) and with a short and a long queue at the "
        "sender. Prints how soon an order acts and what it costs, beside the same download left in peace.",
        "one round, 12 downloads: some 4 minutes, longer where the machine stalls, for such runs are repeated.",
        "five rounds: some 20 minutes.",
    ),
    "failover": Experiment(
        "experiments.failover",
        "a path that dies under a transfer: how long nothing comes",
        "Lets the active path die under a download and an upload, by going black and by a port that goes down, and "
        "measures for how long the receiver gets nothing: with the kernel's defaults, with `bicast mptcp setup`, with "
        "an agent's armed failover, with both, and with the controller killed before.",
        "each death in each way once, 24 transfers: some 4 minutes, longer where the machine stalls, for such runs are "
        "repeated.",
        "ten times that: some 40 minutes.",
    ),
    "once": Experiment(
        "experiments.once",
        "everything copied, of all copies one: what is still lost, what comes twice",
        "Between two sites with an agent at each, everything is copied in both directions, and of all copies one "
        "passes. Counts what becomes of pings, datagrams and TCP requests while both paths lose packets, what it costs "
        "that one is cut or black for a while, and how soon its silent death is told and followed; bicast, single and "
        "off in one run. Before, numbered packets go through the programs alone: elimination loses none. At last the "
        "uplinks are tunnels, each through a NAT of its own: what their headers take, and what is lost while another "
        "outer address is followed.",
        "some 10 minutes.",
        "more losses and more of each, ten million packets: some 28 minutes.",
    ),
    "blocksize": Experiment(
        "experiments.blocksize",
        "paper 003, figures 4 to 13: what the size of writes does to uploads that share an access point",
        "One, two and three terminals upload at the same time through one queue, 20 Mbit/s and 64 ms there and back, "
        "in writes of 32 B to 8 MB, and at last under the mark that the agent sets in place of small writes. Prints "
        "throughput and fairness beside what the paper says of its own, and draws the congestion windows.",
        "33 uploads of 4 MB by each terminal: some 2 minutes.",
        "120 uploads of 16 MB, two rounds: some 30 minutes.",
    ),
    "air": Experiment(
        "experiments.air",
        "paper 000: terminals that share an access point, with its control by windows, the ideal window and none",
        "One to ten terminals upload over one half-duplex air of 20 Mbit/s to servers 4 to 256 ms away, with no rule, "
        "by the paper's tables and by the ideal window, held by the terminals' agents or by the gateway's alone; and "
        "under loss, with several connections each, and in an air that carries less where more contend. Prints "
        "totals, Jain's index, round trips, segments sent again, a ping's time and how soon a newcomer has its part.",
        "36 uploads of 10 s: some 8 minutes, longer where the machine stalls, for such runs are repeated.",
        "104 uploads of 30 s: some 55 minutes, likewise.",
    ),
    "owd": Experiment(
        "experiments.owd",
        "paper 004: the rate of a link, told by how long packets of different lengths take over it",
        "Probes emulated links of 10, 100 and 1000 Mbit/s, half of each others' in every second, and a token bucket: "
        "packets of 16 to 1440 bytes one by one, with the kernel's time stamps at both ends, then trains of them. "
        "The far end's clock drifts as a crystal does. Prints each estimator's error beside the paper's, how often the "
        "true rate is in the interval, and what ICMP errors tell.",
        "21 probings of some 11 s: some 6 minutes.",
        "140 probings: some 35 minutes.",
    ),
    "adaptive": Experiment(
        "experiments.adaptive",
        "copies only when they pay: mode auto beside copies always and never",
        "Lets a camera's 4 Mbit/s go up between two sites while Wi-Fi is clean, loses 5 %, loses 10 % and in bursts, "
        "is dead and is clean again, in the modes auto, bicast and single. Prints what came in each phase, what LTE "
        "carried for it, and how soon and how often copies began and ended. Before, a download under a budget of LTE: "
        "what its copied acknowledgements used of it, as LTE's far end counts.",
        "phases of 15 s, three rounds in each mode: some 16 minutes.",
        "phases of a minute, likewise: some 50 minutes.",
    ),
    "calls": Experiment(
        "experiments.calls",
        "what a call loses on a bad Wi-Fi, in each mode",
        "Lets a call of 50 datagrams a second go both ways between two sites while Wi-Fi loses 4 %, loses bursts, is "
        "dead downwards, and is black; in the modes auto, bicast and single, with an agent at the client that has no "
        "TCP and with none, with elimination and without, with a budget at Wi-Fi, and through tunnels that are probed. "
        "Prints what was lost, how soon copies began, and which uplink is active at the end.",
        "each scene once: some 15 minutes.",
        "each three times: some 45 minutes.",
    ),
    "relay": Experiment(
        "experiments.relay",
        "papers 001 and 002: what a relay costs, which one is found, and what it gains",
        "Has a terminal's connections carried by gateway and relay, by HAProxy's and sing-box's two ends where those "
        "are installed, and by nobody, in turns. Prints rates and processor time on a path without limits, when the "
        "first byte comes where the relay stands half way, memory for idle connections, and what many short ones leave "
        "behind. Then relays are chosen for all pairs of 50 and of 45 hosts of generated planets, by ping, by routers "
        "and by what is predicted, and for some pairs there are real transfers over emulated links, directly and by "
        "relays, one of which is crowded, beside what was predicted of them. Last, what a relayed terminal gets "
        "at home in each mode while Wi-Fi loses packets, of what the line lets through, and one that is left alone. "
        "`.venv/bin/python -m experiments.relay PART ...` runs parts alone.",
        "transfers of a second, 5000 connections open at once, 5000 short ones; three planets; 34 transfers of 4 MB; "
        "20 transfers at home: some 10 minutes.",
        "20 transfers of 2 s each way of each, 100,000 short connections; twenty planets; 5 rounds of 60 transfers of "
        "10 MB; 10 rounds at home, of 100 MB down: about an hour and a half.",
    ),
    "bench": Experiment(
        "experiments.bench",
        "all that is promised in figures, measured, with `transfer --quick` at its end",
        "Measures all that docs/results.md promises in figures: forwarding, changes of mode, connecting, dead ports, "
        "a dead controller, agents, and then the experiments above. Prints promise, figure, n, spread and verdict. "
        "`.venv/bin/python -m experiments.bench PART ...` measures parts alone.",
        "about 60 minutes; what is measured is kept after each part.",
    ),
}


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "experiment",
        help="run one of the papers' experiments again",
        description="Run an experiment in a laboratory of its own (as root; nothing is left behind) and print what was "
        "measured beside the paper's numbers. That a promise was not met is a result too: the exit code is 0 then, and "
        "the verdict says it. Files go to results/NAME/.",
        epilog="`./bicast experiment NAME --help` tells what one measures, and how long it takes.",
    )
    names = parser.add_subparsers(dest="name", metavar="NAME", required=True, title="experiments")
    for name, one in EXPERIMENTS.items():
        experiment = names.add_parser(
            name,
            help=one.summary,
            description=f"{one.measures} Files go to results/{name}/; nothing else is left behind. Root is needed.",
            epilog=f"How long it takes: {one.lasts}",
        )
        experiment.set_defaults(full=False)
        if one.full is not None:
            extent = experiment.add_mutually_exclusive_group()
            extent.add_argument("--quick", action="store_true", help="a part that shows it (this is the default)")
            extent.add_argument("--full", action="store_true", help="all of it")
        experiment.add_argument("--json", action="store_true", help="what came out as one document")


def run(args: argparse.Namespace) -> int:
    try:
        with undisturbed():
            experiment = import_module(EXPERIMENTS[args.name].module)
        code: int = experiment.run(args)
    except (ExperimentFailed, CommandFailed, ControllerFailed, WorldError) as error:
        raise Failure(str(error)) from error
    return code
