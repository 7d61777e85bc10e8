# SPDX-License-Identifier: Apache-2.0
"""The core, fake switches and fake agents in one process without sockets. The test decides when a message arrives."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from controller.core.core import Core, CoreEffect
from controller.features.probing.path_record import Estimate, Estimated
from controller.features.probing.probe_evaluation import estimated
from controller.model.config import Config
from controller.model.in_force import InForce, Known
from controller.model.observed import Port
from controller.program.compile import compile
from controller.program.program import Program
from controller.protocol.orders import Direct, HangUp
from controller.protocol.reports import AgentClosed, AgentEvent
from controller.protocol.switch_messages import (
    Advertise,
    Apply,
    Ask,
    AskFar,
    Close,
    Count,
    Effect,
    PortSeen,
    Read,
    SwitchClosed,
    SwitchEvent,
)
from controller.switches.switch import Switch
from tests.fakes.host import FakeHost
from tests.fakes.switch import FakeSwitch


class CoreAndSwitch:
    def __init__(self, config: Config, fakes: Iterable[FakeSwitch], in_force: InForce | None = None) -> None:
        self.now = 0.0
        self.core = Core(config, in_force or InForce(), self.now)
        self.fakes = {fake.dpid: fake for fake in fakes}
        self.asked: list[Ask] = []
        self.asked_far: list[AskFar] = []
        self.advertised: list[Advertise] = []
        self.closed: list[Close] = []
        self._lines: dict[int, deque[Effect]] = {}  # by session: orders that the switch has not received
        self._at: dict[int, FakeSwitch] = {}
        self._dead: list[int] = []  # sessions that the switch has dropped without the core's notice
        self._sessions = 0
        self.hosts: dict[int, FakeHost] = {}  # by session; numbers of agents and switches differ
        self._to_hands: deque[Direct] = deque()
        self.estimates: deque[Estimate] = deque()  # estimates that are not complete
        self._agents = 0

    # Events

    def connect(self, dpid: int = 1) -> int:
        self.disconnect(dpid)
        return self.connect_beside(self.fakes[dpid])

    def connect_beside(self, fake: FakeSwitch) -> int:
        """Connect a second switch with this dpid."""
        self._sessions += 1
        self._lines[self._sessions], self._at[self._sessions] = deque(), fake
        self.tell(fake.opened(self._sessions))
        return self._sessions

    def come_back(self, dpid: int = 1) -> int:
        """Connect the switch again, with its old TCP connection lost silently."""
        for session in self._of(dpid):
            del self._lines[session], self._at[session]
            self._dead.append(session)
        return self.connect_beside(self.fakes[dpid])

    def disconnect(self, dpid: int = 1) -> None:
        for session in self._of(dpid):
            self._end(session)
        while self._dead:  # unanswered echoes tell of it in the end
            self.tell(SwitchClosed(self._dead.pop()))

    def _of(self, dpid: int) -> list[int]:
        return [session for session, fake in self._at.items() if fake.dpid == dpid]

    def _end(self, session: int) -> None:
        del self._lines[session], self._at[session]
        self.tell(SwitchClosed(session))

    def restart(self, config: Config | None = None) -> None:
        """Kill the controller and start it again with the stored overrides."""
        dpids = {fake.dpid for fake in self._at.values()}
        self._lines, self._at, self._dead = {}, {}, []
        hosts, self.hosts = list(self.hosts.values()), {}
        self._to_hands.clear()
        self.estimates.clear()
        self.core = Core(config or self.core.config, self.core.in_force, self.now, self.core.probing.pages)
        for dpid in dpids:
            self.connect(dpid)
        for host in hosts:
            self.join(host)

    def join(self, host: FakeHost) -> None:
        """Connect an agent; its earlier session ends first."""
        self.leave(host)
        self._agents += 1
        self.hosts[self._agents] = host
        self.tell(host.opened(self._agents))

    def leave(self, host: FakeHost) -> None:
        if self.hosts.pop(host.session, None):
            self.tell(AgentClosed(host.session, "the test ended it"))

    def second(self, *hosts: FakeHost) -> None:
        """Let one second pass, with one report of each connected agent and all consequences."""
        self.pass_time(1.0)
        for host in hosts or tuple(self.hosts.values()):
            self.tell(host.report())
        self.drain()

    def port(self, name: str, port: Port | None, dpid: int = 1) -> None:
        fake = self.fakes[dpid]
        fake.ports = {each: at for each, at in fake.ports.items() if each != name} | ({name: port} if port else {})
        for session in self._of(dpid):
            self.tell(PortSeen(session, name, port))

    def up(self, name: str, up: bool, dpid: int = 1) -> None:
        if name in self.fakes[dpid].ports:
            self.port(name, replace(self.fakes[dpid].ports[name], up=up), dpid)

    def tell(self, event: SwitchEvent | AgentEvent | Estimated) -> None:
        self.carry(self.core.handle(event, self.now))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.carry(self.core.tick(self.now))

    def carry(self, effects: Iterable[CoreEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Direct):
                self._to_hands.append(effect)
            elif isinstance(effect, Estimate):
                self.estimates.append(effect)
            elif isinstance(effect, HangUp):
                self.leave(self.hosts[effect.session])
            elif effect.session in self._lines:
                self._lines[effect.session].append(effect)

    # Messages in flight

    def step(self) -> bool:
        """Deliver one message to a switch and its answers to the core."""
        if not any(self._lines.values()):
            self.carry(self.core.rest(self.now))
        if self._to_hands:
            direct = self._to_hands.popleft()
            if direct.session in self.hosts:
                self.tell(self.hosts[direct.session].carry_out(direct))
            return True
        if self.estimates:
            self.tell(estimated(self.estimates.popleft()))
            return True
        session = next((session for session, line in self._lines.items() if line), None)
        if session is None:
            return False
        self._arrive(self._lines[session].popleft(), self._at[session])
        return True

    def drain(self) -> None:
        for _ in range(10_000):
            if not self.step():
                return
        raise AssertionError("the core and the switch never come to rest")

    def _arrive(self, effect: Effect, fake: FakeSwitch) -> None:
        match effect:
            case Read():
                self.tell(fake.read(effect))
            case Apply():
                for answer in fake.apply(effect):
                    self.tell(answer)
            case Ask():
                self.asked.append(effect)
            case Count():
                self.tell(fake.count(effect))
            case AskFar():
                self.asked_far.append(effect)
            case Advertise():
                self.advertised.append(effect)
            case Close():
                self.closed.append(effect)
                self._end(effect.session)

    # Expected state

    def switch(self, dpid: int = 1) -> Switch:
        return self.core.switches[dpid]

    def compiled(self, dpid: int = 1) -> Program:
        switch = self.switch(dpid)
        return compile(switch.site, Known(self.core.in_force, switch.observed, rates=switch.rates))

    def installed(self, dpid: int = 1) -> Program:
        return self.fakes[dpid].installed().program
