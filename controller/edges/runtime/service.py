# SPDX-License-Identifier: Apache-2.0
"""The thread of the core, and the thread that estimates probes."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from controller.core import overrides
from controller.core.core import Core, CoreEffect
from controller.edges.config.load import load
from controller.edges.runtime.process import moment, notify
from controller.edges.runtime.version import VERSION
from controller.edges.state.store import Store, measured
from controller.edges.state.writer import Save, State, StateWriter
from controller.features.probing.path_record import Estimate, Estimated
from controller.features.relays import requests as relay_requests
from controller.features.relays.manager import MeasuredQuery, PendingAnswer
from controller.features.relays.requests import DestinationQuery, RelayTrial, WishOfRelays
from controller.features.relays.view import DestinationView, TriedView
from controller.features.steering.logbook import LogEntry, SwitchOutcome
from controller.model.config import Config, ConfigError, Mode
from controller.model.overrides import RelayOverride
from controller.model.traffic import Address
from controller.program.program import Program
from controller.protocol.enrolment import Binding, Vouched, bound
from controller.protocol.orders import AgentEffect, HangUp
from controller.protocol.reports import (
    AgentClosed,
    AgentEvent,
    AgentOpened,
    DistancesMeasured,
    FailoverFired,
    ProbeReport,
    Reported,
    Resulted,
    Role,
)
from controller.protocol.requests import NotAnswered, OverrideResult
from controller.protocol.switch_messages import Effect, FarAnswered, NeighbourSeen, Solicited, SwitchEvent
from controller.readout.build import buckets, snapshot, watched
from controller.readout.snapshot import BucketView, CourseView, Snapshot, Watched
from controller.readout.why import course

log = logging.getLogger(__name__)

# The inbox: urgent events in order, before packets that a terminal can cause at any rate
#
# Port changes and requests never wait behind packets. Waiting packets are bounded, and ports take turns. Beyond the
# bound the busiest port loses its oldest.

MOST_PACKETS = 1024  # they take the core a tenth of a second

Job = Callable[[], None] | None


class Inbox:
    """A queue of jobs. Any thread may put without blocking; one thread gets."""

    def __init__(self) -> None:
        self._pressing: deque[Job] = deque()
        self._packets: dict[Hashable, deque[Job]] = {}  # by origin; the first is next
        self._waiting = 0  # packets
        self._changed = threading.Condition()  # never held while anything waits

    def put(self, job: Job) -> None:
        with self._changed:
            self._pressing.append(job)
            self._changed.notify()

    def put_packet(self, origin: Hashable, job: Job) -> None:
        with self._changed:
            if self._waiting >= MOST_PACKETS:
                self._oldest_of(max(self._packets, key=lambda each: len(self._packets[each])))
            self._packets.setdefault(origin, deque()).append(job)
            self._waiting += 1
            self._changed.notify()

    def get(self, timeout_s: float) -> tuple[Job, bool]:
        """Return a job and whether it is urgent. Raise queue.Empty after the timeout."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._pressing or self._packets, timeout_s):
                raise queue.Empty
            if self._pressing:
                return self._pressing.popleft(), True
            return self._oldest_of(next(iter(self._packets))), False

    def presses(self) -> bool:
        return bool(self._pressing)

    def empty(self) -> bool:
        with self._changed:  # _oldest_of removes an origin for a moment
            return not self._pressing and not self._packets

    def _oldest_of(self, origin: Hashable) -> Job:
        """Take an origin's oldest packet, and put its others behind all other origins'."""
        others = self._packets.pop(origin)
        job = others.popleft()
        if others:
            self._packets[origin] = others
        self._waiting -= 1
        return job


# The estimator has a thread of its own, as one estimate may take a second
#
# numpy's threads inherit the signal mask of the importing thread, and the estimator's thread has signals blocked. So
# numpy must not be imported before __main__.py blocks them.


class Estimator:
    def __init__(self, post: Callable[[Estimated], None]) -> None:
        """`post` must not block."""
        self._post = post
        self._orders: queue.SimpleQueue[Estimate | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="estimates", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, order: Estimate) -> None:
        self._orders.put(order)

    def stop(self) -> None:
        self._orders.put(None)
        self._thread.join()

    def _run(self) -> None:
        from controller.features.probing.probe_evaluation import estimated

        while (order := self._orders.get()) is not None:
            self._post(estimated(order))


@dataclass(frozen=True, slots=True, eq=False)
class WaitingRequest:
    """A request that waits for agents, switches or the disk."""

    awaited: Sequence[PendingAnswer]
    until: float
    answer: Callable[[], None]

    def is_due(self, now: float) -> bool:
        return now >= self.until or all(each.answered for each in self.awaited)


T = TypeVar("T")
TICK_S = 1.0
ANSWER_WITHIN_S = 5.0
AgentWord = AgentOpened | Reported | Resulted | FailoverFired | ProbeReport | DistancesMeasured  # all but AgentClosed
HANDS_WITHIN_S = 2.0  # for agents and switches to confirm an override
WALKED_WITHIN_S = 5.0
WRITTEN_WITHIN_S = 5.0


class Service:
    """The thread of the core. Any thread may call its public methods."""

    def __init__(
        self,
        config_path: str,
        config: Config,
        store: Store,
        perform: Callable[[Effect | AgentEffect], None],
    ) -> None:
        """`config` is the current content of `config_path`."""
        self._config_path = config_path
        self._perform = perform
        now, offset_s = time.monotonic(), _wall_offset_s()
        self._core = Core(config, store.load(), now, measured(store, now, offset_s))
        self._inbox = Inbox()
        self._writer = StateWriter(store, self._state, lambda: self._inbox.put(lambda: None))
        self._waiting: list[WaitingRequest] = []
        self._failed: set[int] = set()  # agent sessions that end because the core failed at a message of theirs
        self._estimator = Estimator(self.post)
        self._thread = threading.Thread(target=self._run, name="core", daemon=True)

    def start(self) -> None:
        self._estimator.start()
        self._writer.start()
        self._thread.start()

    def stop(self) -> None:
        self._inbox.put(None)
        self._thread.join()
        self._writer.stop()
        self._estimator.stop()

    # From switches, agents and the estimator

    def post(self, event: SwitchEvent | AgentEvent | Estimated, taken: Callable[[], None] | None = None) -> None:
        """Queue an event. The core's thread calls `taken` after handling it."""

        def job() -> None:
            if isinstance(event, AgentWord):
                if not self._on_agent_event(event):
                    return
            else:
                if isinstance(event, AgentClosed):
                    self._failed.discard(event.session)
                self._carry_out(self._core.handle(event, time.monotonic()))
            if taken is not None:
                taken()

        if isinstance(event, NeighbourSeen | Solicited | FarAnswered):
            self._inbox.put_packet((event.session, event.in_port), job)
        else:
            self._inbox.put(job)

    def bind(self, name: str, role: Role | None, terminal: str | None) -> Binding:
        return self._ask(lambda: bound(self._core.config, self._core.overrides.relays, name, role, terminal))

    def vouch(self, certificates: Vouched) -> None:
        """Return without waiting for the core."""
        self._inbox.put(lambda: self._carry_out(self._core.vouch(certificates, time.monotonic())))

    # From people

    def set_mode(self, terminal: str, mode: Mode | None, traffic: str | None = None) -> OverrideResult:
        return self._override(terminal, lambda now: (*overrides.mode(self._core, terminal, mode, now, traffic), []))

    def set_active(self, terminal: str, uplink: str) -> OverrideResult:
        return self._override(terminal, lambda now: overrides.active(self._core, terminal, uplink, now))

    def set_used(self, gateway: str, uplink: str, used_bytes: int) -> OverrideResult:
        return self._saved(lambda now: overrides.used_set(self._core, gateway, uplink, used_bytes, now))

    def measure(self, uplink: str, site: str | None = None, link_bps: float | None = None) -> OverrideResult:
        """Probe both directions of a path at once, for the snapshot.

        `site` names either end if the uplink's name is ambiguous. `link_bps` is the link's known rate, which calibrates
        the hosts.
        """

        def start() -> OverrideResult:
            answer = self._core.probing.wish(site, uplink, link_bps)
            self._carry_out(self._core.probing.tend(time.monotonic()))
            return answer

        return self._ask(start)

    def set_relay(self, name: str, relay: RelayOverride) -> OverrideResult:
        return self._of_relays(relay_requests.wished(name, relay))

    def remove_relay(self, name: str) -> OverrideResult:
        return self._of_relays(relay_requests.unwished(name))

    def drain_relay(self, name: str, draining: bool) -> OverrideResult:
        return self._of_relays(relay_requests.drained(name, draining))

    def destination(self, address: Address, site: str | None = None) -> tuple[DestinationView, ...]:
        """Return the relay and the reason. Wait up to WALKED_WITHIN_S for unknown distances."""
        return self._measured(lambda now: DestinationQuery(self._core.relays, address, site, False, now))

    def try_relay(self, name: str, address: Address | None) -> TriedView:
        return self._measured(lambda now: RelayTrial(self._core.relays, self._core.overrides, name, address, now))

    def _measured(self, ask: Callable[[float], MeasuredQuery[T]]) -> T:
        def begin() -> tuple[Sequence[PendingAnswer], Callable[[], T]]:
            query = ask(time.monotonic())
            self._carry_out(self._core.relays.tend(self._core.in_force, time.monotonic()))
            return query.inquiries, lambda: query.result(time.monotonic())

        return self._request(begin, WALKED_WITHIN_S)

    def _of_relays(self, wish: WishOfRelays) -> OverrideResult:
        return self._saved(lambda now: overrides.of_relays(self._core, wish, now))

    def _saved(self, wish: Callable[[float], tuple[OverrideResult, list[CoreEffect]]]) -> OverrideResult:
        """Apply an override and wait until it is written."""

        def begin() -> tuple[Sequence[PendingAnswer], Callable[[], OverrideResult]]:
            answer, effects = wish(time.monotonic())
            self._carry_out(effects)
            save = self._save()
            return [save], lambda: replace(answer, failed=(*answer.failed, *_not_written(save)))

        return self._request(begin, WRITTEN_WITHIN_S)

    def _override(
        self, terminal: str, wish: Callable[[float], tuple[OverrideResult, list[CoreEffect], list[LogEntry]]]
    ) -> OverrideResult:
        """Apply an override and wait up to HANDS_WITHIN_S for answers. `decisions` has later ones."""

        def begin() -> tuple[Sequence[PendingAnswer], Callable[[], OverrideResult]]:
            answer, effects, entries = wish(time.monotonic())
            sent = overrides.unconfirmed(self._core, terminal)
            self._carry_out(effects)
            save = self._save()

            def outcome() -> OverrideResult:
                done = (sentence for entry in entries for sentence in entry.answers())
                could_not = (sentence for entry in entries for sentence in entry.failures())
                late = (_not_in_force(*each) for each in sent if not each[1].done)
                failed = (*answer.failed, *_not_written(save), *late, *could_not)
                return replace(answer, done=(*answer.done, *done), failed=failed)

            return [*entries, *(moved for _, moved in sent), save], outcome

        return self._request(begin, HANDS_WITHIN_S)

    def alive(self) -> None:
        """Raise NotAnswered if the core does not answer."""
        self._ask(lambda: None)

    def decisions(self, terminal: str) -> CourseView:
        return self._ask(lambda: course(self._core, terminal, time.monotonic(), _wall_offset_s()))

    def snapshot(self) -> Snapshot:
        return self._ask(lambda: snapshot(self._core, self._config_path, VERSION, time.monotonic(), _wall_offset_s()))

    def watched(self) -> Watched:
        return self._ask(lambda: watched(self._core, time.monotonic(), _wall_offset_s()))

    def buckets(self) -> tuple[BucketView, ...]:
        return self._ask(lambda: buckets(self._core))

    def program(self, site: str) -> Program | None:
        return self._ask(lambda: self._program(site))

    def reload(self) -> None:
        """Read the file in the caller's thread and pass the result to the core."""
        try:
            config = load(self._config_path)
        except ConfigError as error:
            refused = error
            self._inbox.put(lambda: self._core.refuse_config(refused))
            return
        self._inbox.put(lambda: self._apply_config(config))

    # In the core's thread

    def _on_agent_event(self, event: AgentWord) -> bool:
        """Return False if the core fails, and end only that agent's session."""
        if event.session in self._failed:
            return False
        effects: list[CoreEffect] = []
        failure = None
        try:
            for effect in self._core.handle(event, time.monotonic()):
                effects.append(effect)
        except Exception as error:  # any kind: an agent's message determines where the core fails
            failure = error
        self._carry_out(effects)
        if failure is None:
            return True
        self._failed.add(event.session)
        agent = self._core.agents.of(event.session)
        name = event.name if isinstance(event, AgentOpened) else agent and agent.name
        word = type(event).__name__
        log.error("the core failed at a message (%s) of agent %s: its session ends", word, name, exc_info=failure)
        reason = (
            f"its message ({word}) made the controller fail, and the controller's log shows where: report this "
            "as an error in bicast"
        )
        self._perform(HangUp(event.session, reason, fault=True))
        return False

    def _run(self) -> None:
        next_tick = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= next_tick:  # before any waiting job: a flood of packets must not stop the clock
                notify("WATCHDOG=1")  # systemd restarts a controller whose core hangs
                next_tick = now + TICK_S
                self._core.set_time(moment(time.time()), now)
                self._carry_out(self._core.tick(now))
                self._writer.tend(self._state, _wall_offset_s())
            due = (next_tick, self._core.rests_at() or next_tick, *(each.until for each in self._waiting))
            try:
                job, pressed = self._inbox.get(max(0.0, min(due) - time.monotonic()))
            except queue.Empty:
                self._answer_requests()
                self._rest()
                continue
            if job is None:
                self._core.keep_used(time.monotonic())
                self._writer.tend(self._state, _wall_offset_s())
                return
            job()
            self._answer_requests()
            if self._inbox.empty() or (pressed and not self._inbox.presses()):  # a flood of packets delays no move
                self._rest()

    def _rest(self) -> None:
        self._carry_out(self._core.rest(time.monotonic()))

    def _answer_requests(self) -> None:
        now = time.monotonic()
        due = [each for each in self._waiting if each.is_due(now)]
        self._waiting = [each for each in self._waiting if each not in due]
        for each in due:
            each.answer()

    def _carry_out(self, effects: Iterable[CoreEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Estimate):
                self._estimator.put(effect)
            else:
                self._perform(effect)

    def _ask(self, question: Callable[[], T]) -> T:
        return self._request(lambda: ((), question), 0.0)

    def _request(self, begin: Callable[[], tuple[Sequence[PendingAnswer], Callable[[], T]]], within_s: float) -> T:
        """Begin in the core's thread, and return the outcome when all have answered, at the latest after this time."""
        answer: Future[T] = Future()

        def job() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                awaited, outcome = begin()
            except BaseException as error:
                answer.set_exception(error)
                return
            self._waiting.append(
                WaitingRequest(awaited, time.monotonic() + within_s, partial(_resolve, answer, outcome))
            )

        self._inbox.put(job)
        try:
            return answer.result(ANSWER_WITHIN_S + within_s)
        except TimeoutError:
            answer.cancel()
            raise NotAnswered(f"the core did not answer within {ANSWER_WITHIN_S:.0f} s; try again") from None

    @property
    def _state(self) -> State:
        return self._core.overrides, self._core.decisions, self._core.probing.pages

    def _save(self) -> Save:
        return self._writer.save(self._state, _wall_offset_s())

    def _program(self, site: str) -> Program | None:
        return next((each.expected() for each in self._core.switches.values() if each.site.name == site), None)

    def _apply_config(self, config: Config) -> None:
        if config.settings != self._core.config.settings:
            log.warning("changes under `controller:` in %s apply after the next start", self._config_path)
        self._carry_out(self._core.reconfigure(config, time.monotonic()))
        log.info("the configuration of %s is in force", self._config_path)


def _resolve(answer: Future[T], outcome: Callable[[], T]) -> None:
    try:
        answer.set_result(outcome())
    except BaseException as error:
        answer.set_exception(error)


def _not_written(save: Save) -> tuple[str, ...]:
    if not save.answered:
        return ("the disk has not yet confirmed the change: a loss of power before it does would undo it",)
    return (save.failed,) if save.failed is not None else ()


def _not_in_force(gateway: str, moved: SwitchOutcome) -> str:
    if moved.answered:
        return f"gateway {gateway}: {moved.answer}"
    late = f"the change was sent to gateway {gateway}, whose switch has not confirmed it within {HANDS_WITHIN_S:g} s"
    return f"{late}; `./bicast status` shows its state"


def _wall_offset_s() -> float:
    """Return Unix time minus the core's monotonic clock. It changes whenever someone sets the wall clock."""
    return time.time() - time.monotonic()
