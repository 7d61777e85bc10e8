# SPDX-License-Identifier: Apache-2.0
"""One stream of one agent, from its hello to its end.

    opened ──hello──► (the one before it? sessions.py) ──► begin: listening and speaking ──► end, which says why

All of it runs in the agents' thread. The core confirms each event before the next message is read, so a slow core slows
the agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NoReturn, TypeVar

from api import agent_pb2 as pb
from controller.edges.agentlink import decode, encode
from controller.edges.agentlink.connection import AgentConnection
from controller.edges.trust.authority import Shown
from controller.edges.trust.refusals import Reason, Refused
from controller.protocol.orders import ReportEvery
from controller.protocol.reports import AgentClosed, AgentEvent, AgentOpened, Role

# An event, and what to call in the agents' thread when the core has taken it
Post = Callable[[AgentEvent, Callable[[], None]], None]

T = TypeVar("T")

HELLO_WITHIN_S = 5.0
FIRST_INTERVAL_MS = 1000
QUIET_S = 10.0  # then the controller asks for a sign of life
ANSWERS_WITHIN_S = 5.0
MOST_UNREAD = 1024  # queued for an agent that does not read; a relay is armed for 250 terminals at once
LARGE_BYTES = 1 << 16  # larger messages are decoded in a thread: other agents are served meanwhile
SOONEST = 0.25  # of the interval, between confirmed reports
SOONEST_AFTER_LONG = 1.0
LONG_BYTES = 1 << 14  # some three hundred subflows
FIRED_AT_ONCE, FIRED_PER_S = 256, 50.0  # one for each terminal of a large house
LARGE_WORDS = ThreadPoolExecutor(1, "large-words")  # one at a time: a malicious message of 4 MB takes 300 MB to decode
LAST_WORDS_S = 1.0  # for the reason of the end to be sent
BROKE_OFF = "the connection broke off"
RESULT_MESSAGES = {
    "probe": "probe_report",
    "measure_distances": "distances_measured",
}  # orders whose outcome has its own message type
QUESTION = 0  # directive for a sign of life; the core's are higher


class StreamEnd(Exception):
    """The end of a stream, with its reason."""

    def __init__(self, sentence: str, cause: pb.End.Cause = pb.End.PASSING) -> None:
        super().__init__(sentence)
        self.cause = cause


class AgentSession:
    def __init__(self, number: int, guest: AgentConnection, certificate: Shown, post: Post) -> None:
        self.number, self.guest, self.certificate = number, guest, certificate
        self.over = asyncio.Event()
        self._post = post
        self._received = asyncio.Event()  # a new event per message: every waiter sees it
        self._received_at = asyncio.get_running_loop().time()
        self._verdict: StreamEnd | None = None
        self._judged = asyncio.Event()
        self._outbox: asyncio.Queue[pb.FromController] = asyncio.Queue(MOST_UNREAD)
        self._speaking: asyncio.Task[None] | None = None
        self._unacknowledged: int | None = None
        self._unanswered: set[int] = set()
        self._unreported: dict[str, set[int]] = {did: set() for did in RESULT_MESSAGES.values()}  # without an outcome
        self._interval_ms = FIRST_INTERVAL_MS
        self._next_ack_at = 0.0
        self._fired = Pace(FIRED_AT_ONCE, FIRED_PER_S)

    @property
    def name(self) -> str:
        return self.certificate.name

    async def hello(self) -> pb.Hello:
        try:
            async with asyncio.timeout(HELLO_WITHIN_S):
                word = await self._read()
        except TimeoutError:
            raise Refused(Reason.SILENCE, f"sent nothing for {HELLO_WITHIN_S:g} s: expected a hello") from None
        if word is None or not word.HasField("hello"):
            raise Refused(Reason.SPEECH, "sent another message before its hello")
        return word.hello

    async def live(self, opened: AgentOpened, hello: pb.Hello) -> NoReturn:
        reason = BROKE_OFF
        self._say(encode.welcome(hello, self._interval_ms))
        self._post(opened, _nothing)
        self._speaking = asyncio.create_task(self._speak())
        coroutines = (self._listen(opened.role), self._watch(), self._wait())
        parts = [asyncio.create_task(part) for part in coroutines]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                part.result()
        except (StreamEnd, Refused) as end:
            reason = str(end)
            raise
        finally:
            for part in parts:
                part.cancel()
            try:
                await asyncio.gather(*parts, return_exceptions=True)
            finally:  # the listener may cancel the stream, and again during this cleanup
                self._post(AgentClosed(self.number, reason), _nothing)
        raise AssertionError("a part of a stream ended without a reason")

    # From the agents' thread

    def end(self, sentence: str, cause: pb.End.Cause = pb.End.PASSING) -> None:
        if self._verdict is None:
            self._verdict = StreamEnd(sentence, cause)
            self._judged.set()

    def order(self, number: int, word: pb.FromController) -> None:
        self._unanswered.add(number)
        if word.directive.HasField("report_every"):
            self._interval_ms = word.directive.report_every.interval_ms
        did = RESULT_MESSAGES.get(word.directive.WhichOneof("order") or "")
        if did is not None:
            self._unreported[did].add(number)
        self._say(word)

    def renew(self, certificate: bytes) -> None:
        self._say(pb.FromController(renewed=pb.Renewed(certificate=certificate)))

    async def finish(self, end: pb.FromController) -> None:
        """Send the last message. An agent that does not read may miss it."""
        with suppress(OSError):  # includes the timeout's error
            async with asyncio.timeout(LAST_WORDS_S):
                if self._speaking is None:
                    await self.guest.send(end.SerializeToString())
                else:
                    await self._outbox.put(end)
                    await self._speaking

    def drop(self) -> None:
        """Send nothing any more."""
        if self._speaking is not None:
            self._speaking.cancel()

    async def answers(self, within_s: float) -> bool:
        """Return whether the agent sends any message within `within_s`. Ask for one."""
        received = self._received
        if QUESTION not in self._unanswered:
            self.order(QUESTION, encode.directive(QUESTION, ReportEvery(self._interval_ms)))
        signs = {asyncio.create_task(received.wait()), asyncio.create_task(self.over.wait())}
        try:
            await asyncio.wait(signs, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in signs:
                each.cancel()
        return received.is_set() and not self.over.is_set()

    async def _wait(self) -> NoReturn:
        await self._judged.wait()
        assert self._verdict is not None
        raise self._verdict

    async def _watch(self) -> NoReturn:
        """End a silent agent's stream: TCP would keep a lost host's connection for hours."""
        while True:
            quiet_s = asyncio.get_running_loop().time() - self._received_at
            if quiet_s < QUIET_S:
                await asyncio.sleep(QUIET_S - quiet_s)
            elif not await self.answers(ANSWERS_WITHIN_S):
                raise StreamEnd(f"silent for {QUIET_S + ANSWERS_WITHIN_S:g} s")

    async def _speak(self) -> None:
        with suppress(OSError):  # the reader reports a broken connection
            while True:
                word = await self._outbox.get()
                await self.guest.send(word.SerializeToString())
                if word.HasField("end"):
                    return

    async def _listen(self, role: Role) -> NoReturn:
        while (word := await self._read()) is not None:
            if word.HasField("stopping"):
                raise StreamEnd("it was stopped")
            self._received_at = asyncio.get_running_loop().time()
            self._received.set()
            self._received = asyncio.Event()
            match word.WhichOneof("payload"):
                case "report":
                    await self._take(word.report, role)
                case "result":
                    await self._answered(word.result)
                case "fired":
                    await self._fired.turn()
                    await self._tell(decode.fired(self.number, word.fired))
                case "probe_report":
                    self._tells("probe_report", word.probe_report.directive)
                    await self._tell(
                        await _in_its_turn(word.ByteSize(), lambda: decode.probe_report(self.number, word.probe_report))
                    )
                case "distances_measured":
                    self._tells("distances_measured", word.distances_measured.directive)
                    await self._tell(decode.distances_measured(self.number, word.distances_measured))
                case _:
                    raise Refused(Reason.SPEECH, "sent a second hello")
        raise StreamEnd(BROKE_OFF)

    async def _read(self) -> pb.FromAgent | None:
        raw = await self.guest.receive(decode.MOST_BYTES)
        return await _in_its_turn(len(raw), lambda: decode.message(raw)) if raw is not None else None

    async def _take(self, report: pb.Report, role: Role) -> None:
        if self._unacknowledged is not None:
            raise Refused(
                Reason.SPEECH,
                f"sent report {report.sequence} before report {self._unacknowledged} was confirmed: "
                "expected one at a time",
            )
        self._unacknowledged = report.sequence
        size_bytes = report.ByteSize()
        event = await _in_its_turn(size_bytes, lambda: decode.reported(self.number, role, report))
        self._post(event, partial(self._acknowledge, SOONEST if size_bytes < LONG_BYTES else SOONEST_AFTER_LONG))

    def _acknowledge(self, soonest: float) -> None:
        """Confirm a report, but not too early. Only agents above their interval are slowed."""
        loop = asyncio.get_running_loop()
        at = max(self._next_ack_at, loop.time())
        self._next_ack_at = at + soonest * self._interval_ms / 1000
        loop.call_at(at, self._send_ack)

    def _send_ack(self) -> None:
        assert self._unacknowledged is not None
        sequence, self._unacknowledged = self._unacknowledged, None
        self._say(encode.ack(sequence))

    async def _answered(self, result: pb.Result) -> None:
        if result.directive not in self._unanswered:
            raise Refused(
                Reason.SPEECH, f"answered directive {result.directive}, which was not sent or is already answered"
            )
        self._unanswered.remove(result.directive)
        if not result.done:
            for unreported in self._unreported.values():
                unreported.discard(result.directive)
        if result.directive != QUESTION:
            await self._tell(decode.resulted(self.number, result))

    def _tells(self, did: str, directive: int) -> None:
        """Refuse an outcome without a directive, or a second one."""
        if directive not in self._unreported[did]:
            what = f"sent {did} of directive {directive}"
            raise Refused(Reason.SPEECH, f"{what}, which was not sent or is already reported")
        self._unreported[did].remove(directive)

    async def _tell(self, event: AgentEvent) -> None:
        handled = asyncio.Event()
        self._post(event, handled.set)
        await handled.wait()

    def _say(self, word: pb.FromController) -> None:
        try:
            self._outbox.put_nowait(word)
        except asyncio.QueueFull:
            self.end(f"does not read: {MOST_UNREAD} messages wait for it")


async def _in_its_turn(size_bytes: int, read: Callable[[], T]) -> T:
    return read() if size_bytes < LARGE_BYTES else await asyncio.get_running_loop().run_in_executor(LARGE_WORDS, read)


class Pace:
    """A token bucket. While it is empty, the agent's messages are not read."""

    def __init__(self, at_once: int, per_s: float) -> None:
        self._most, self._per_s = float(at_once), per_s
        self._left, self._at = self._most, 0.0

    async def turn(self) -> None:
        now = asyncio.get_running_loop().time()
        self._left, self._at = min(self._most, self._left + (now - self._at) * self._per_s), now
        self._left -= 1
        if self._left < 0:
            await asyncio.sleep(-self._left / self._per_s)


def _nothing() -> None:
    pass
