# SPDX-License-Identifier: Apache-2.0
"""The controller's messages to agents."""

from __future__ import annotations

from api import agent_pb2 as pb
from controller.edges.agentlink.codec import write
from controller.protocol.orders import Directive

PROTOCOL = 1  # highest supported version
FIELDS = {
    field.message_type.name: field.name
    for field in pb.Directive.DESCRIPTOR.oneofs_by_name["order"].fields
    if field.message_type is not None
}


def welcome(hello: pb.Hello, interval_ms: int) -> pb.FromController:
    protocol = min(hello.protocol, PROTOCOL)
    return pb.FromController(welcome=pb.Welcome(protocol=protocol, report_interval_ms=interval_ms))


def ack(sequence: int) -> pb.FromController:
    return pb.FromController(ack=pb.ReportAck(sequence=sequence))


def directive(number: int, order: Directive) -> pb.FromController:
    word = pb.Directive(id=number)
    write(order, getattr(word, FIELDS[type(order).__name__]))
    return pb.FromController(directive=word)


def end(cause: pb.End.Cause, reason: str) -> pb.FromController:
    return pb.FromController(end=pb.End(cause=cause, reason=reason))
