# SPDX-License-Identifier: Apache-2.0
"""The table of verbs. Only the given verb's module is imported."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from cli import INTERRUPTED, Failure, undisturbed
from cli.interrupt import heard_everywhere
from controller.edges.runtime.version import VERSION

VERBS = {
    "lab": ("cli.lab", "start the paper's lab, run the controller on it, compare bicast off and on"),
    "init": ("cli.init", "make two bare machines a home and its far site, or one a home"),
    "uninstall": ("cli.uninstall", "take back all that `bicast init` did to this machine"),
    "run": ("cli.run", "run the controller on a gateway.yaml"),
    "check": ("cli.check", "check a gateway.yaml and list its errors"),
    "bridge": ("cli.bridge", "prepare the bridge that a gateway.yaml names"),
    "lan": ("cli.lan", "serve the devices of this host's LANs with addresses and names"),
    "doctor": ("cli.doctor", "find what this machine lacks, with the command that fixes it"),
    "page": ("cli.page", "print a link that signs a browser in to the controller's page"),
    "status": ("cli.status", "show gateways, uplinks and terminals"),
    "mode": ("cli.wish", "set a terminal's mode: bicast, single, off, auto, or file for gateway.yaml's"),
    "switch": ("cli.wish", "set the active uplink of a terminal, or leave it to policies"),
    "why": ("cli.why", "explain why a terminal uses its uplink, or which relay serves a destination"),
    "events": ("cli.records", "list what happened, newest first"),
    "audit": ("cli.records", "list who changed what, newest first"),
    "caps": ("cli.caps", "list the terminals of each access point with their window limits"),
    "budget": ("cli.budget", "reset what a metered uplink has used of its budget"),
    "measure": ("cli.measure", "probe an uplink now and print its bandwidth"),
    "relay": ("cli.relay", "manage the relays that carry terminals' connections"),
    "enroll": ("cli.agents", "print the token with which an agent joins"),
    "revoke": ("cli.agents", "disconnect an agent and revoke its certificate"),
    "agents": ("cli.agents", "list enrolled agents"),
    "mptcp": ("cli.mptcp", "show and move the live MPTCP connections of this machine"),
    "bandwidth": ("cli.bandwidth", "estimate the rate of a path from a probe's output"),
    "render": ("cli.render", "write ovs-flows/: the program as files for an Open vSwitch without a controller"),
    "experiment": ("cli.experiment", "run one of the papers' experiments again"),
    "report": ("cli.report", "write docs/papers.md: the papers beside what was measured"),
}

LABORATORY = ("experiments", "lab", "topologies")  # packaged on their own

EXAMPLES = """\
examples, in the order of a first day:
  ./bicast lab                          see it work on this machine alone
  ./bicast doctor                       what this machine needs before it can be a gateway
  ./bicast init --far                   on a rented machine: print the line to type at home, and wait for it
  ./bicast check gateway.yaml           is the configuration valid?
  ./bicast bridge gateway.yaml          create the bridge it describes
  ./bicast run gateway.yaml             run the controller
  ./bicast page                         see the network, steer it and read why, in a browser
  ./bicast status                       is the gateway in sync?
  ./bicast mode phone single            phone sends over its active uplink only
  ./bicast mode all bicast              all terminals send over every uplink
  ./bicast mode all auto                copy only while the active uplink is lossy or slow
  ./bicast mode all file                return to the modes of gateway.yaml
  ./bicast switch phone lte             make lte the active uplink of phone, whatever happens
  ./bicast switch phone auto            let policies choose it
  ./bicast why phone                    the health of its uplinks, and the last decisions with reasons
  ./bicast events phone                 what happened to it, newest first
  ./bicast audit                        who changed what
  ./bicast caps                         terminals of each access point, with their window limits
  ./bicast budget reset home/lte        lte has used nothing of its budget, as when a bill begins
  ./bicast measure lte                  bandwidth of lte between two sites, in both directions
  ./bicast enroll phone                 print the command that makes a host an agent
  ./bicast relay add tokyo 203.0.113.9  print the command that makes a host a relay
  ./bicast why --relay example.com      the relay that serves this destination
  ./bicast mptcp list                   this machine's MPTCP connections, with their paths
  ./bicast status --json | jq '.terminals[] | select(.mode == "off") | .name'

`./bicast VERB --help` explains one verb. Verbs that read accept --json; so do `mode` and `switch`.

exit codes:
  0  success
  1  negative result or refused: an invalid configuration, an unknown terminal, an impossible request
  2  the command line is wrong
  3  the controller does not answer
  4  the switch changed, but an agent failed or the setting could not be saved for a restart: the
     reasons are on stderr, and in `failed` of --json
  130  Ctrl-C

environment:
  BICAST_API    address of the controller's API, such as 127.0.0.1:8653 or https://gateway.home:8653 (--api)
  BICAST_CA     certificate of the API, or of its authority (--ca)
  BICAST_SITE   this machine's site of gateway.yaml (--site)
  BICAST_TOKEN  the API's token (--token-file); root and the group bicast need none on the controller's machine
"""


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        with undisturbed():
            verb, args = _understood(sys.argv[1:] if arguments is None else arguments)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # ./bicast blocks SIGINT until Python can handle it
        code: int = verb.run(args)
        sys.stdout.flush()
        return code
    except Failure as failure:
        print(f"bicast: {failure}", file=sys.stderr)
        return failure.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader closed the pipe (docs.python.org, signal, "Note on SIGPIPE")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


class WholeWords(argparse.ArgumentParser):
    """A parser that accepts no abbreviated options."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named, allow_abbrev=False)


def _understood(arguments: Sequence[str]) -> tuple[Any, argparse.Namespace]:
    completion = import_module("cli.completion") if "_ARGCOMPLETE" in os.environ else None
    if completion is not None:
        arguments = completion.words()
    parser = WholeWords(
        prog="bicast",
        description="Make a multihomed access network behave like one good link.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=VERSION)
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True, title="verbs")
    module = _module(arguments[0]) if arguments and arguments[0] in VERBS else None
    if module is not None:
        module.add(subparsers)
    for verb, (_, summary) in VERBS.items():
        if verb not in subparsers.choices:
            subparsers.add_parser(verb, help=summary)
    if completion is not None:
        completion.complete(parser)
    args = parser.parse_args(arguments)
    assert module is not None, "argparse knows no verb that is not in the table"
    return module, args


def _module(verb: str) -> ModuleType:
    try:
        return import_module(VERBS[verb][0])
    except ModuleNotFoundError as error:
        if error.name in LABORATORY:
            raise Failure(f"`bicast {verb}` needs the package bicast-lab: apt-get install bicast-lab") from error
        raise


if __name__ == "__main__":
    heard_everywhere()
    ended = main()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # during shutdown Python would print a traceback
    sys.exit(ended)
