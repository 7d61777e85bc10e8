"""One stream of one agent, from its hello to its end.

    opened ──hello──► (the one before it? sessions.py) ──► begin: listening and speaking ──► end, with a status that
                                                                                             says why

All of it is in the agents' thread; the core is told through `post` and answers when it has taken what it was told. The
next report may come then and not before, and other words are not even read before: so a slow core slows the agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

import grpc

from api import agent_pb2 as pb
from controller.agency import speech
from controller.agency.door import Guest
from controller.agency.refusals import Reason, Refused
from controller.agency.trust import Shown
from controller.reports import AgentClosed, AgentEvent, AgentOpened, ReportEvery

Post = Callable[[AgentEvent, Callable[[], None]], None]
"""The event, and what to call, from whatever thread, when the core has taken it."""

Stream = grpc.aio.ServicerContext[bytes, pb.FromController]

HELLO_WITHIN_S = 5.0
FIRST_INTERVAL_MS = 1000
QUIET_S = 10.0  # then it is asked whether it is still there
ANSWERS_WITHIN_S = 5.0
MOST_UNREAD = 256  # words that wait for an agent which does not read
QUESTION = 0  # the directive that asks for a sign of life; the core's have higher numbers


class Ended(Exception):
    """Why a stream ends, in gRPC's words."""

    def __init__(self, code: grpc.StatusCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Session:
    def __init__(self, number: int, guest: Guest, certificate: Shown, stream: Stream, post: Post) -> None:
        self.number, self.guest, self.certificate = number, guest, certificate
        self.over = asyncio.Event()
        self._stream, self._post = stream, post
        self._heard = asyncio.Event()  # a new one for each word, so that each who waits for one sees it
        self._verdict: Ended | None = None
        self._judged = asyncio.Event()
        self._outbox: asyncio.Queue[pb.FromController] = asyncio.Queue(MOST_UNREAD)
        self._saying: asyncio.Future[None] | None = None  # the last word that was begun
        self._untaken: int | None = None  # the number of the report that the core has not taken yet
        self._unanswered: set[int] = set()
        self._interval_ms = FIRST_INTERVAL_MS

    @property
    def name(self) -> str:
        return self.certificate.name

    async def hello(self) -> pb.Hello:
        try:
            async with asyncio.timeout(HELLO_WITHIN_S):
                word = await self._read()
        except TimeoutError:
            raise Refused(Reason.SILENCE, f"said nothing for {HELLO_WITHIN_S:g} s: expected a hello") from None
        if word is None or not word.HasField("hello"):
            raise Refused(Reason.SPEECH, "did not say hello first")
        return word.hello

    async def live(self, opened: AgentOpened, hello: pb.Hello) -> NoReturn:
        """Raises why it ended."""
        reason = "the connection broke off"
        self._say(speech.welcome(hello, self._interval_ms))
        self._post(opened, _nothing)
        parts = [asyncio.create_task(part()) for part in (self._listen, self._speak, self._watch, self._wait)]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                part.result()
        except (Ended, Refused) as end:
            reason = str(end)
            raise
        finally:
            for part in parts:
                part.cancel()
            try:
                await asyncio.gather(*parts, return_exceptions=True)
            finally:  # gRPC cancels a stream whose connection broke off, and sometimes once more while it ends
                self._post(AgentClosed(self.number, reason), _nothing)
        raise AssertionError("no part of a stream ends without a reason")

    # From the agents' thread

    def end(self, code: grpc.StatusCode, sentence: str) -> None:
        if self._verdict is None:
            self._verdict = Ended(code, sentence)
            self._judged.set()

    def order(self, number: int, word: pb.FromController) -> None:
        self._unanswered.add(number)
        if word.directive.HasField("report_every"):
            self._interval_ms = word.directive.report_every.interval_ms
        self._say(word)

    async def finished_saying(self) -> None:
        """gRPC takes no status while a word is on its way; one that nobody reads is, until the connection is cut."""
        if self._saying is not None:
            await asyncio.wait([self._saying])

    async def answers(self, within_s: float) -> bool:
        """Whether there is still somebody at the other end."""
        heard = self._heard
        if QUESTION not in self._unanswered:
            self.order(QUESTION, speech.directive(QUESTION, ReportEvery(self._interval_ms)))
        signs = {asyncio.create_task(heard.wait()), asyncio.create_task(self.over.wait())}
        try:
            await asyncio.wait(signs, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in signs:
                each.cancel()
        return heard.is_set() and not self.over.is_set()

    # The parts

    async def _wait(self) -> NoReturn:
        await self._judged.wait()
        assert self._verdict is not None
        raise self._verdict

    async def _watch(self) -> NoReturn:
        """A host may go without a word, and its kernel, or ours, would hold the connection for hours."""
        while True:
            try:
                async with asyncio.timeout(QUIET_S):
                    await self._heard.wait()
                continue
            except TimeoutError:
                pass
            if not await self.answers(ANSWERS_WITHIN_S):
                raise Ended(grpc.StatusCode.UNAVAILABLE, f"silent for {QUIET_S + ANSWERS_WITHIN_S:g} s")

    async def _speak(self) -> NoReturn:
        while True:
            word = await self._outbox.get()
            self._saying = asyncio.ensure_future(self._stream.write(word))
            await asyncio.shield(self._saying)

    async def _listen(self) -> NoReturn:
        while (word := await self._read()) is not None:
            self._heard.set()
            self._heard = asyncio.Event()
            match word.WhichOneof("word"):
                case "report":
                    self._take(word.report)
                case "result":
                    await self._answered(word.result)
                case "fired":
                    await self._tell(speech.fired(self.number, word.fired))
                case _:
                    raise Refused(Reason.SPEECH, "said hello twice")
        raise Ended(grpc.StatusCode.OK, "the agent ended the stream")

    async def _read(self) -> pb.FromAgent | None:
        raw = await self._stream.read()
        return speech.heard(raw) if isinstance(raw, bytes) else None

    def _take(self, report: pb.Report) -> None:
        if self._untaken is not None:
            raise Refused(
                Reason.SPEECH,
                f"sent report {report.sequence} while {self._untaken} was not taken: expected one at a time",
            )
        self._untaken = report.sequence
        loop = asyncio.get_running_loop()
        self._post(speech.reported(self.number, report), lambda: later(loop, self._taken))

    def _taken(self) -> None:
        assert self._untaken is not None
        sequence, self._untaken = self._untaken, None
        self._say(speech.taken(sequence))

    async def _answered(self, result: pb.Result) -> None:
        if result.directive not in self._unanswered:
            raise Refused(
                Reason.SPEECH, f"answered directive {result.directive}, which it was not given or has answered"
            )
        self._unanswered.remove(result.directive)
        if result.directive != QUESTION:
            await self._tell(speech.resulted(self.number, result))

    async def _tell(self, event: AgentEvent) -> None:
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        self._post(event, lambda: later(loop, told.set))
        await told.wait()

    def _say(self, word: pb.FromController) -> None:
        try:
            self._outbox.put_nowait(word)
        except asyncio.QueueFull:
            self.end(grpc.StatusCode.RESOURCE_EXHAUSTED, f"does not read: {MOST_UNREAD} words wait for it")


def later(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """From any thread. Where the loop has ended, nobody is left whom it would concern."""
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _nothing() -> None:
    pass
