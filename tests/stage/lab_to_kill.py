# SPDX-License-Identifier: Apache-2.0
"""A whole lab in an isolated world. It prints `complete` and then waits to be killed."""

import signal

from lab.stage import isolate
from lab.stage.stage import raised
from lab.traffic.web import web_server
from topologies.paper import SERVER, PaperTopo

isolate.enter()
with raised(PaperTopo()) as net, web_server(net.machine("server"), SERVER):
    print("complete", flush=True)
    signal.pause()
