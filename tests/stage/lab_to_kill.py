# SPDX-License-Identifier: Apache-2.0
"""A whole lab in a world of its own, which says `complete` and then waits for its death."""

import signal

from lab.stage import isolate
from lab.stage.stage import raised
from lab.traffic.web import web_server
from topologies.paper import SERVER, PaperTopo

isolate.enter()
with raised(PaperTopo()) as net, web_server(net.machine("server"), SERVER):
    print("complete", flush=True)
    signal.pause()
