# SPDX-License-Identifier: Apache-2.0
"""`bicast experiment NAME`: repeat an experiment of the papers, or run the bench.

An experiment is a module with `run(args) -> int`; `args` has full and json. It enters its own world. Progress goes to
stderr, results to stdout.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
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
    """An experiment before its import. Its durations hold for two idle cores."""

    module: str
    summary: str
    measures: str
    takes: str  # the runs and their duration
    full: str | None = None  # with --full; None: no longer variant
    options: Callable[[argparse.ArgumentParser], None] = lambda _: None

    @property
    def lasts(self) -> str:
        return self.takes if self.full is None else f"--quick: {self.takes} --full: {self.full}"


def _choose_downloads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--setting",
        help="only these downloads: cubic or bbr, backup or equal for LTE, `,frames` where Wi-Fi loses whole offloaded "
        "frames, `,relay` or `,laptop` for another network; the paper's setting is cubic,backup",
    )
    parser.add_argument("--plan", action="store_true", help="print what is measured and missing, and the time it takes")


EXPERIMENTS = {
    "transfer": Experiment(
        "experiments.transfer",
        "paper 002, tables 5 and 6, figures 4 to 9: downloads over a lossy Wi-Fi",
        "Downloads a file in the paper's laboratory while Wi-Fi loses packets, plain and bicast, with cubic and "
        "bbr, with LTE as backup and as an equal path. Prints the seconds beside the paper's, the ratios with "
        "their spread, and whether the paper's results are reproduced.",
        "the corners of the paper's grid of losses, 52 downloads of 50 MB: about 8 minutes.",
        "the whole grid, 500 MB, hours as `--full --plan` prints; each download is kept, and the next --full goes on.",
        _choose_downloads,
    ),
    "windows": Experiment(
        "experiments.windows",
        "paper 002, section 4.4: the server's congestion window, plain and with copied acknowledgements",
        "Downloads a file while Wi-Fi loses packets on the way down alone, plain and with copies of the client's "
        "packets, and samples the server's congestion window five times a second. Prints its mean in each mode, and "
        "the chance that so much wider a window comes without an effect of the copies.",
        "6 downloads of 20 MB: about a minute.",
        "60 downloads of 100 MB, five rounds: about 15 minutes.",
    ),
    "capture": Experiment(
        "experiments.capture",
        "paper 002, tables 3 and 4: which packets are copied, captured at every machine",
        "A server and a client exchange single words over MPTCP; halfway the active path is switched, once by the "
        "client's agent and once by the server's, as in the paper. "
        "Packets are captured at the client, the router and the server, and each of the paper's claims about copied "
        "packets is checked against them. The captures are kept for wireshark.",
        "about 20 seconds.",
    ),
    "switching": Experiment(
        "experiments.switching",
        "a live download switched between two paths: delay and cost of a switch",
        "Switches a live download softly from path to path, 20 times at 0.5 s, by each executor (`bicast mptcp "
        "switch`, and `bicast switch` with an agent at the client or at the server) and with a short and a long "
        "queue at the sender. Prints the delay and the cost of an order, beside the same download without switches.",
        "one round, 12 downloads: about 4 minutes, longer if the machine stalls, because such runs are repeated.",
        "five rounds: about 20 minutes.",
    ),
    "failover": Experiment(
        "experiments.failover",
        "a path that dies during a transfer: how long the receiver gets nothing",
        "Lets the active path die during a download and an upload, by silent loss of all packets and by a port that "
        "goes down, and measures how long the receiver gets nothing: with the kernel's defaults, with `bicast mptcp "
        "setup`, with an agent's armed failover, with both, and with the controller killed before.",
        "each failure in each configuration once, 24 transfers: about 4 minutes, longer if the machine stalls, "
        "because such runs are repeated.",
        "ten times that: about 40 minutes.",
    ),
    "once": Experiment(
        "experiments.once",
        "copies with elimination: remaining losses and duplicates",
        "Between two sites with an agent at each, all packets are copied in both directions and duplicates are "
        "eliminated. Counts the pings, datagrams and TCP requests that survive while both paths lose packets, the "
        "cost of a path that is cut or silent for a while, and the time until its silent failure is reported and "
        "acted on; bicast, single and off in one run. Before, numbered packets pass the BPF programs alone: "
        "elimination must lose none. At last the uplinks are tunnels, each through its own NAT: the cost of their "
        "headers, and the loss while an outer address changes.",
        "about 10 minutes.",
        "more losses and more runs of each, ten million packets: about 28 minutes.",
    ),
    "blocksize": Experiment(
        "experiments.blocksize",
        "paper 003, figures 4 to 13: effect of the write size on uploads that share an access point",
        "One, two and three terminals upload at the same time through one queue, 20 Mbit/s and 64 ms there and "
        "back, in writes of 32 B to 8 MB, and at last with the mark that the agent sets instead of small writes. "
        "Prints throughput and fairness beside the paper's, and draws the congestion windows.",
        "33 uploads of 4 MB by each terminal: about 2 minutes.",
        "120 uploads of 16 MB, two rounds: about 30 minutes.",
    ),
    "air": Experiment(
        "experiments.air",
        "paper 000: terminals that share an access point, with the paper's window control, the ideal window and "
        "no control",
        "One to ten terminals upload over one half-duplex radio link of 20 Mbit/s to servers 4 to 256 ms away, with "
        "no rule, the paper's tables and the ideal window, enforced by the terminals' agents or by the gateway's "
        "agent alone; also with loss, with several connections each, and on a link whose capacity falls with "
        "contention. Prints totals, Jain's index, round trips, retransmitted segments, a ping's time and the time "
        "until a newcomer has its share.",
        "36 uploads of 10 s: about 8 minutes, longer if the machine stalls, because such runs are repeated.",
        "104 uploads of 30 s: about 55 minutes, likewise.",
    ),
    "owd": Experiment(
        "experiments.owd",
        "paper 004: the rate of a link, estimated from the delays of packets of different lengths",
        "Probes emulated links of 10, 100 and 1000 Mbit/s, each also with cross traffic that takes half, and a "
        "token bucket: packets of 16 to 1440 bytes one by one, with kernel time stamps at both ends, then trains of "
        "them. The far end's clock drifts like a crystal. Prints each estimator's error beside the paper's, how "
        "often the true rate is in the interval, and what ICMP errors show.",
        "21 probes of about 11 s: about 6 minutes.",
        "140 probes: about 35 minutes.",
    ),
    "adaptive": Experiment(
        "experiments.adaptive",
        "copies only when they help: mode auto compared with copies always and never",
        "Uploads a camera's 4 Mbit/s between two sites while Wi-Fi is clean, loses 5 %, loses 10 % and in bursts, "
        "is dead and is clean again, in the modes auto, bicast and single. Prints the packets that arrived in each "
        "phase, the bytes that LTE carried for them, and how soon and how often copies began and ended. Before, a "
        "download with a budget on LTE: the bytes that its copied acknowledgements used, as counted at LTE's far "
        "end.",
        "phases of 15 s, three rounds in each mode: about 16 minutes.",
        "phases of a minute, likewise: about 50 minutes.",
    ),
    "calls": Experiment(
        "experiments.calls",
        "the packets that a call loses on a bad Wi-Fi, in each mode",
        "Sends a call of 50 datagrams a second in both directions between two sites while Wi-Fi loses 4 %, loses "
        "bursts, is dead downwards, and is silent; in the modes auto, bicast and single, without TCP at the client, "
        "with and without an agent there, with and without elimination, with a budget on Wi-Fi, and through probed "
        "tunnels. Prints the losses, how soon copies began, and which uplink is active at the end.",
        "each scene once: about 15 minutes.",
        "each three times: about 45 minutes.",
    ),
    "peers": Experiment(
        "experiments.peers",
        "tunnels over two paths beside engarde, WireGuard, VXLAN, MPTCP and mqvpn, in one run",
        "Runs this product's tunnels, encrypted and in clear, and those of other projects in turns over two paths "
        "behind NATs, Wi-Fi with 100 Mbit/s and LTE with 50 Mbit/s. Counts what a call and a stream of 8 Mbit/s lose "
        "while Wi-Fi loses 10 % in bursts and LTE 1 %, and what a call loses while the used path is down, black or "
        "behind another address; measures answers, bulk, bytes on the wire, and, without limits, packets a second and "
        "processor time. Figures of time come with and without the machine's stalls. Rows in which another project "
        "is better stand first. The exit code is 1 if a promise is not met. `make peers` builds the other projects' "
        "programs; what is missing is left out.",
        "each variant once: about 8 minutes.",
        "five times in turns, the black path of all but the first once: about 24 minutes; the figures also go to "
        "docs/results/peers.csv.",
    ),
    "relay": Experiment(
        "experiments.relay",
        "papers 001 and 002: a relay's cost, choice and gain",
        "Runs a terminal's connections through gateway and relay, through HAProxy and sing-box at both ends where "
        "these are installed, and directly, in turns. Prints rates and processor time on a path without limits, the "
        "time to the first byte with the relay halfway, memory for idle connections, and the remains of many short "
        "ones. Then relays are chosen for all pairs of 50 and of 45 hosts of generated planets, by ping, by routers "
        "and by prediction, and for some pairs real transfers over emulated links, direct and relayed, one over a "
        "busy relay, are compared with the prediction. Last, the share of the line's rate that a relayed terminal "
        "and an unrelayed one get at home in each mode while Wi-Fi loses packets. `.venv/bin/python -m "
        "experiments.relay PART ...` runs single parts.",
        "transfers of a second, 5000 connections open at once, 5000 short ones; three planets; 34 transfers of 4 MB; "
        "20 transfers at home: about 10 minutes.",
        "20 transfers of 2 s of each in each direction, 100,000 short connections; twenty planets; 5 rounds of 60 "
        "transfers of 10 MB; 10 rounds at home with 100 MB down: about an hour and a half.",
    ),
    "bench": Experiment(
        "experiments.bench",
        "measure all figures that docs/results.md promises, with `transfer --quick` at the end",
        "Measures all figures that docs/results.md promises: forwarding, changes of mode, connecting, dead ports, "
        "a dead controller, agents, and then the experiments above. Prints promise, figure, n, spread and verdict. "
        "`.venv/bin/python -m experiments.bench PART ...` measures single parts.",
        "about 60 minutes; results are saved after each part.",
    ),
}


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "experiment",
        help="run one of the papers' experiments again",
        description="Run an experiment in its own laboratory (as root; nothing is left behind) and print "
        "the results beside the paper's numbers. A missed promise is a result too: the verdict names it, and "
        "the exit code is 0. Files go to results/NAME/.",
        epilog="`./bicast experiment NAME --help` shows what it measures and how long it takes.",
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
            extent.add_argument("--quick", action="store_true", help="a small representative part (default)")
            extent.add_argument("--full", action="store_true", help="the whole experiment")
        one.options(experiment)
        experiment.add_argument("--json", action="store_true", help="print the result as one JSON document")


def run(args: argparse.Namespace) -> int:
    try:
        with undisturbed():
            experiment = import_module(EXPERIMENTS[args.name].module)
        code: int = experiment.run(args)
    except (ExperimentFailed, CommandFailed, ControllerFailed, WorldError) as error:
        raise Failure(str(error)) from error
    return code
