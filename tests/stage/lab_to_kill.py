"""A whole lab in a world of its own, which says `complete` and then waits for its death."""

import signal

from topologies import isolate
from topologies.paper import SERVER, PaperTopo
from topologies.stage import raised
from topologies.web import web_server

isolate.enter()
with raised(PaperTopo()) as net, web_server(net.machine("server"), SERVER):
    print("complete", flush=True)
    signal.pause()
