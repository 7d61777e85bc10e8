# SPDX-License-Identifier: Apache-2.0
"""An agent of a terminal that reports false values, and confirms every order without carrying it out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from types import MappingProxyType

from api import agent_pb2 as pb
from controller.model.settings import Endpoint
from lab.processes.controller import Controller
from lab.stage import isolate
from tests.controller.edges.agentlink.agent import Identity, Stream, join

INTERVAL_MS = 250
MANY = 10_000


class FalseAgent:
    def __init__(self, stream: Stream, address: str) -> None:
        self._stream = stream
        self._sequence = count(1)
        capabilities = [pb.Capability(name="caps", available=True)]
        hello = pb.Hello(protocol=1, role=pb.ROLE_TERMINAL, addresses=[address], capabilities=capabilities)
        stream.say(pb.FromAgent(hello=hello))
        threading.Thread(target=self._obey, daemon=True).start()

    def report(self, *subflows: pb.Subflow) -> None:
        connections = [pb.Connection(subflows=[each]) for each in subflows]
        report = pb.Report(sequence=next(self._sequence), interval_ms=INTERVAL_MS, connections=connections)
        self._stream.say(pb.FromAgent(report=report))

    def _obey(self) -> None:
        while isinstance(word := self._stream.any_word(), pb.FromController):
            if word.HasField("directive"):
                result = pb.Result(directive=word.directive.id, done=True, said="so it is")
                self._stream.say(pb.FromAgent(result=result))


@contextmanager
def lying(controller: Controller, name: str, address: str) -> Iterator[FalseAgent]:
    """Yield a lying agent that is in session during the block."""
    invited = controller.client.invite(name, "terminal")
    kept = (isolate.RUN_DIRECTORY / "agents" / "ca.pem").read_bytes()
    ca_pem = kept[kept.index(b"-----BEGIN CERTIFICATE") :]
    host, _, port = invited["join"].rpartition(":")
    joins_at = Endpoint(host, int(port))
    identity = join(joins_at, ca_pem, name, invited["token"])
    assert isinstance(identity, Identity), identity
    at = identity.session.rpartition(":")[2]
    stream = Stream(Endpoint(joins_at.host, int(at)), ca_pem, identity, None)
    try:
        yield FalseAgent(stream, address)
    finally:
        stream.close()


def _subflow(own: str, other: str, n: int, **said: int) -> pb.Subflow:
    """Return a subflow that sends a megabyte between reports, 16 ms away. `said` replaces some of its values."""
    truth = {"local_port": 40_000, "srtt_us": 16_000, "min_rtt_us": 16_000, "bytes_acked": 1_000_000 * n}
    ends = {"local_address": own, "remote_address": other, "remote_port": 443}
    return pb.Subflow(**ends, in_flight_segments=10, **(truth | said))


Lie = Callable[[str, str, str, int], list[pb.Subflow]]
"""Makes the subflows of report n from the terminal's address, its peer's and that of another terminal."""

LIES: Mapping[str, Lie] = MappingProxyType(
    {
        "round trips of nothing": lambda own, other, _, n: [_subflow(own, other, n, srtt_us=0, min_rtt_us=0)],
        "round trips of an hour": lambda own, other, _, n: [
            _subflow(own, other, n, srtt_us=2**32 - 1, min_rtt_us=2**32 - 1)
        ],
        "a way that nobody else has": lambda own, other, _, n: [
            _subflow(own, other, n, srtt_us=3_000_000, min_rtt_us=3_000_000)
        ],
        "more bytes than there are": lambda own, other, _, n: [_subflow(own, other, n, bytes_acked=2**63 + n)],
        "what is somebody else's": lambda own, other, else_s, n: [
            _subflow(own, other, n),
            _subflow(else_s, other, n, srtt_us=1, min_rtt_us=1),
        ],
        "ten thousand connections": lambda own, other, _, n: [
            _subflow(own, other, n, local_port=1 + port) for port in range(MANY)
        ],
    }
)
