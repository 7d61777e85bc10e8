# SPDX-License-Identifier: Apache-2.0
"""Repeat paper 002's tables 3 and 4 (section 3.3): capture the copies at client, router and server.

In between `./bicast switch` makes the client's agent send MP_PRIO. Upstream MPTCP applies the client's choice to both
directions.
"""

from __future__ import annotations

import argparse
import json

from experiments.capture.measure import by_controller, observe
from experiments.capture.plan import DIRECTORY, FILE
from experiments.capture.report import claims, document, text
from lab.processes.agents import SETTINGS, TERMINAL, agent
from lab.processes.controller import OPENFLOW, controlled, pin_mode
from lab.stage import isolate
from lab.stage.stage import raised
from topologies.paper import PaperTopo


def run(args: argparse.Namespace) -> int:
    isolate.enter()
    with controlled(FILE, SETTINGS) as controller, raised(PaperTopo(), controller=OPENFLOW) as net:
        controller.await_steady()
        pin_mode(controller.client, "bicast")
        with agent(controller, net.machine("client"), TERMINAL, "terminal"):
            seen = observe(net, DIRECTORY, by_controller)
    found = claims(seen)
    print(json.dumps(document(seen, found), indent=2) if args.json else text(seen, found))
    return 0
