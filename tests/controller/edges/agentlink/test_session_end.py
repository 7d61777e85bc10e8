# SPDX-License-Identifier: Apache-2.0
"""The core is notified of every end of a stream, however gRPC reports it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from api import agent_pb2 as pb
from controller.edges.agentlink.listener import AgentConnection
from controller.edges.agentlink.session import AgentSession, Stream
from controller.edges.trust.authority import Shown
from controller.protocol.reports import AgentClosed, AgentEvent, AgentOpened, PathManager, Role


class SilentStream:
    """A stream that receives nothing and needs a moment to cancel its read."""

    def __init__(self) -> None:
        self.is_read = asyncio.Event()

    async def read(self) -> object:
        self.is_read.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def write(self, word: object) -> None:
        pass


@pytest.mark.parametrize("cancellations", [1, 2])
def test_stream_end_is_reported_once_despite_cancellations(cancellations: int) -> None:
    told: list[AgentEvent] = []

    def post(event: AgentEvent, taken: Callable[[], None]) -> None:
        told.append(event)

    async def lives() -> None:
        certificate = Shown("phone", "00", "", b"")
        deaf = SilentStream()
        guest = AgentConnection("127.0.0.1:1", certificate, cast(Any, None))
        session = AgentSession(7, guest, certificate, cast(Stream, deaf), post)
        opened = AgentOpened(7, "phone", "127.0.0.1:1", Role.TERMINAL, PathManager.KERNEL, "1", (), ())
        stream = asyncio.create_task(session.live(opened, pb.Hello(protocol=1)))
        await deaf.is_read.wait()
        await asyncio.sleep(0)
        for _ in range(cancellations):
            stream.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await stream

    asyncio.run(lives())
    assert [type(event) for event in told] == [AgentOpened, AgentClosed]
