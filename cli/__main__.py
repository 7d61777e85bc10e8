# SPDX-License-Identifier: Apache-2.0
"""The table of verbs. A verb's module is imported when that verb is asked for, so that `status` loads no experiment."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from cli import INTERRUPTED, Failure, undisturbed
from cli.interrupt import heard_everywhere
from controller.edges.runtime.version import VERSION

VERBS = {
    "lab": ("cli.lab", "raise the paper's lab, run the controller on it, compare bicast off and on"),
    "run": ("cli.run", "run the controller on a gateway.yaml"),
    "check": ("cli.check", "say whether a gateway.yaml is good, and what is wrong with it"),
    "bridge": ("cli.bridge", "prepare the bridge that a gateway.yaml names"),
    "doctor": ("cli.doctor", "find what this machine lacks, with the line that mends it"),
    "status": ("cli.status", "show gateways, uplinks and terminals"),
    "mode": ("cli.wish", "set how a terminal's packets leave: bicast, single, off, auto, or as the file says"),
    "switch": ("cli.wish", "set the active uplink of a terminal, or leave it to policies"),
    "why": ("cli.why", "tell why a terminal is on its uplink, or by which relay a destination is reached"),
    "caps": ("cli.caps", "show who shares an access point, and what each may have on its way"),
    "budget": ("cli.budget", "reset what copies have used of a metered uplink today"),
    "measure": ("cli.measure", "have an uplink probed now, and tell its bandwidth"),
    "relay": ("cli.relay", "say which hosts carry terminals' connections"),
    "enroll": ("cli.agents", "print the token with which an agent joins"),
    "revoke": ("cli.agents", "send an agent away, and its certificate with it"),
    "agents": ("cli.agents", "list who was enrolled"),
    "mptcp": ("cli.mptcp", "see and steer the live MPTCP connections of this machine"),
    "bandwidth": ("cli.bandwidth", "tell the rate of a path that was probed"),
    "render": ("cli.render", "write ovs-flows/: the program as files for an OVS with no controller"),
    "experiment": ("cli.experiment", "run one of the papers' experiments again"),
}

EXAMPLES = """\
examples, in the order of a first day:
  ./bicast lab                          see it work, on this machine alone
  ./bicast doctor                       what this machine needs before it can be a gateway
  ./bicast check gateway.yaml           is the configuration good?
  ./bicast bridge gateway.yaml          make the bridge it describes
  ./bicast run gateway.yaml             run the controller
  ./bicast status                       is everything steady?
  ./bicast mode phone single            phone's packets leave by its active uplink only
  ./bicast mode all bicast              everybody's packets leave by every uplink
  ./bicast mode all auto                by every uplink while that is worth its bytes
  ./bicast mode all file                as gateway.yaml says
  ./bicast switch phone lte             make lte the active uplink of phone, whatever happens
  ./bicast switch phone auto            let policies choose it
  ./bicast why phone                    how its uplinks fare, and what was decided for which reason
  ./bicast caps                         who shares the air, and what each may have on its way there
  ./bicast budget reset home/lte        after a wrong date: copies have used nothing of lte today
  ./bicast measure lte                  what lte carries between two of our sites, both ways
  ./bicast enroll phone                 the line that makes an agent of a host
  ./bicast relay add tokyo 203.0.113.9  the line that makes a relay of one
  ./bicast why --relay example.com      by which relay that is reached
  ./bicast mptcp list                   this machine's MPTCP connections, with their paths
  ./bicast status --json | jq '.terminals[] | select(.mode == "off") | .name'

`./bicast VERB --help` teaches one verb. Verbs that read take --json, `mode` and `switch` too.

exit codes:
  0  it is so, it is done
  1  it is not so, or it was refused: a bad configuration, an unknown terminal, an impossible wish
  2  the command line is wrong
  3  the controller does not answer
  4  the gateway's part is done, but an agent could not do its own (or the wish could not be kept for a restart): the
     reasons are on stderr, and in `failed` of --json
  130  Ctrl-C

environment:
  BICAST_API    where the controller's API is, such as 127.0.0.1:8653 (--api)
  BICAST_TOKEN  the API's token (--token-file); not needed by root, nor by the group bicast, on the controller's machine
"""


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        with undisturbed():
            verb, args = _understood(sys.argv[1:] if arguments is None else arguments)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # ./bicast starts us deaf: nobody could answer yet
        code: int = verb.run(args)
        sys.stdout.flush()
        return code
    except Failure as failure:
        print(f"bicast: {failure}", file=sys.stderr)
        return failure.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough (docs.python.org, signal, "Note on SIGPIPE")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


class WholeWords(argparse.ArgumentParser):
    """A parser that takes no beginning of an option for the option, and whose verbs' parsers do not either."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named, allow_abbrev=False)


def _understood(arguments: Sequence[str]) -> tuple[Any, argparse.Namespace]:
    """The verb's module, and what it is asked for."""
    parser = WholeWords(
        prog="bicast",
        description="Make a multihomed access network behave like one good link.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=VERSION)
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True, title="verbs")
    asked = VERBS.get(arguments[0]) if arguments else None
    module = import_module(asked[0]) if asked else None
    if module is not None:
        module.add(subparsers)
    for verb, (_, summary) in VERBS.items():
        if verb not in subparsers.choices:
            subparsers.add_parser(verb, help=summary)
    args = parser.parse_args(arguments)
    assert module is not None, "argparse knows no verb that is not in the table"
    return module, args


if __name__ == "__main__":
    heard_everywhere()
    ended = main()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what is left to do is Python's, which would show it
    sys.exit(ended)
