# SPDX-License-Identifier: Apache-2.0
"""Upload beside an uncapped sender, under each rule."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from experiments.air.endpoints import PORT, Received, received, sampled, uploading
from experiments.air.laboratory import FILE, SITE, WITHIN_S, Laboratory
from experiments.air.plan import CUBIC
from experiments.air.starvation.plan import GUEST, HELD, RTTS_MS, RULES, Guest, Mix, server_at
from lab.processes.agents import SETTINGS, AgentProcess, agent
from lab.processes.controller import LOOK_EVERY_S, OPENFLOW, controlled
from lab.stage import isolate, ovs
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.stage.stage import raised
from lab.stage.watch import watched
from lab.traffic.streaming import till
from topologies.access_point import AIR_BPS, SERVERS, AccessPointTopo, address

JOINS_S, ENDS_S = 8.0, 28.0  # the guest and counting begin; the run ends
KILLED_S = 5.0  # its lease ends 3 s later
LATE_S = 10.0  # length of a run's end, which has its own figures
LOOK_S = 0.5
DATAGRAMS_BPS = 5_000_000
BURST_S = 3.0
PROGRAM = [sys.executable, str(Path(__file__).with_name("guest.py"))]
GUEST_PLACE = re.compile(rf"(?<= {GUEST}: {{)access_point: air, ")


@dataclass(frozen=True, slots=True)
class Run:
    mix: Mix
    rule: str
    bps: tuple[float, ...]  # of each capped terminal
    late_bps: tuple[float, ...]  # in the last LATE_S
    guest_bps: float  # of its TCP; 0: it sends none
    srtt_ms: float  # mean of capped terminals
    released: str  # last reason why caps were released; empty: they were in force
    releases: int  # polls, two a second, that found released caps
    stalled: str
    timeline: tuple[str, ...] = field(repr=False, default=())

    def __str__(self) -> str:
        each = " ".join(f"{bps / 1e6:.2f}" for bps in self.bps)
        late = " ".join(f"{bps / 1e6:.2f}" for bps in self.late_bps)
        more = f"; {self.released} ({self.releases} looks)" if self.releases else ""
        return (
            f"{self.mix}; {self.rule}: {each} Mbit/s (at the end {late}), the guest {self.guest_bps / 1e6:.2f}, "
            f"srtt {self.srtt_ms:.0f} ms{more}"
        )


def carry_out(mixes: Sequence[Mix], times: int, logs: Path) -> Iterator[Run]:
    for by_gateway in (False, True):
        those = [mix for mix in mixes if mix.by_gateway == by_gateway]
        if those:
            with laboratory(by_gateway, logs) as (lab, agents):
                for mix, rule in ((mix, rule) for _ in range(times) for mix in those for rule in RULES):
                    yield _run(lab, agents, mix, rule)


@contextmanager
def laboratory(by_gateway: bool, logs: Path) -> Iterator[tuple[Laboratory, dict[str, AgentProcess]]]:
    with (
        controlled(FILE, SETTINGS) as controller,
        raised(AccessPointTopo(len(HELD) + 1), controller=OPENFLOW) as net,
        watched(ovs.needed(), logs),
        ExitStack() as running,
    ):
        controller.await_steady()
        lab = Laboratory(net, controller)
        for name, rtt_ms in RTTS_MS.items():
            link = net.uplink(name)
            for way in (link.forward, link.backward):
                way.set(delay_ms=rtt_ms / 2)
        for machine in lab.terminals:
            for server in SERVERS.values():
                _await_reached(machine, server)
        if by_gateway:
            agents = {SITE: running.enter_context(agent(controller, None, SITE, "gateway"))}
        else:
            agents = {
                each.name: running.enter_context(agent(controller, each, each.name, "terminal"))
                for each in lab.terminals
            }
        yield lab, agents


def _await_reached(machine: Machine, server: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while machine.run("ping", "-c", "1", "-W", "1", server, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"{server} does not answer {machine.name} within {WITHIN_S:.0f} s")


def set_rule(lab: Laboratory, rule: str, is_listed: bool, is_written: bool = True) -> None:
    file = lab.controller.file
    text = FILE.read_text(encoding="utf-8")
    if not is_listed:
        text = GUEST_PLACE.sub("", text)
    if not is_written:
        text = text.replace(f"bandwidth_bps: {AIR_BPS}, ", "")
    head = file.read_text(encoding="utf-8").partition("\n")[0]
    file.write_text(f"{head}\n{text.replace('rule: off', f'rule: {rule}')}", encoding="utf-8")
    lab.controller.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + WITHIN_S
    while (told := _access_point(lab))["rule"] != rule or (
        GUEST in {one["terminal"] for one in told["terminals"]}
    ) != is_listed:
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"the rule {rule} is not in force {WITHIN_S:.0f} s after the reload")
        time.sleep(LOOK_EVERY_S)  # the API has no event to wait for


def _access_point(lab: Laboratory) -> dict[str, Any]:
    (one,) = lab.controller.client.get("caps")
    return dict(one)


def _run(lab: Laboratory, agents: dict[str, AgentProcess], mix: Mix, rule: str) -> Run:
    guest = agents.get(GUEST)
    if guest is not None and guest.ended and mix.guest is Guest.KILLED:
        guest.start()
    elif guest is not None and not guest.ended and mix.guest is not Guest.KILLED:
        guest.kill()
    lab.await_quiet()
    set_rule(lab, rule, mix.guest is not Guest.UNLISTED)
    lab.forget()
    machines = {name: lab.net.machine(name) for name in (*HELD, GUEST)}
    targets = {machines[name]: SERVERS[mix.server(number)] for number, name in enumerate(HELD)}
    uploads = mix.guest in (Guest.KILLED, Guest.UPLOAD, Guest.UNLISTED)
    if uploads:
        targets[machines[GUEST]] = SERVERS[server_at(mix.guest_rtt_ms)]
    servers = {SERVERS[name]: each for name, each in lab.servers.items()}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="air-", dir=isolate.RUN_DIRECTORY)))
        sending, serving = stack.enter_context(uploading(targets, servers, 1, CUBIC, place))
        lab.spoilt()
        began = time.monotonic()
        for end in sending[: len(HELD) + (mix.guest is Guest.KILLED)]:
            end.go()
        if mix.guest is Guest.KILLED and guest is not None:
            till(began + KILLED_S)
            guest.kill()
        till(began + JOINS_S)
        if uploads and mix.guest is not Guest.KILLED:
            sending[-1].go()
        elif not uploads:
            _begin(stack, lab, machines[GUEST], mix)
        looks = list(_looks(lab, began, began + ENDS_S))
        stalled = lab.spoilt()
        samples = [end.finish() for end in sending]
        reads = array("d")
        for end in serving:
            reads.extend(end.finish())
    come = received(reads, [address(name) for name in (*HELD, GUEST)])
    counted, ended = began + JOINS_S, began + ENDS_S
    return Run(
        mix,
        rule,
        tuple(one.bps(counted, ended) for one in come[: len(HELD)]),
        tuple(one.bps(ended - LATE_S, ended) for one in come[: len(HELD)]),
        come[-1].bps(counted, ended) if uploads or mix.guest is Guest.BURSTS else 0.0,
        mean(sampled(each, 1, counted, ended).srtt_ms for each in samples[: len(HELD)]),
        next((reason for _, reason, _ in reversed(looks) if reason), ""),
        sum(bool(reason) for _, reason, _ in looks),
        stalled,
        tuple(_timeline(come, looks, began)),
    )


def _timeline(come: Sequence[Received], looks: Sequence[tuple[float, str, str]], began: float) -> Iterator[str]:
    for moment, reason, caps in looks:
        each = " ".join(f"{one.bps(moment - LOOK_S, moment) / 1e6:5.2f}" for one in come)
        yield f"{moment - began:5.1f} s: {each} | {caps} {reason}"


def _looks(lab: Laboratory, since: float, until: float) -> Iterator[tuple[float, str, str]]:
    """Yield the moment, the release reason, and each terminal's cap."""
    while time.monotonic() < until:
        told = _access_point(lab)
        caps = " ".join(
            f"{one['least_segments']}-{one['most_segments']}(x{one['rtt_ratio'] or 0:.1f})"
            for one in told["terminals"][:7]
        )
        yield time.monotonic(), told.get("released") or "", caps
        till(min(until, time.monotonic() + LOOK_S))


def released(lab: Laboratory, until: float) -> Iterator[str]:
    while time.monotonic() < until:
        yield _access_point(lab).get("released") or ""
        till(min(until, time.monotonic() + LOOK_S))


def _begin(stack: ExitStack, lab: Laboratory, machine: Machine, mix: Mix) -> None:
    server = SERVERS[server_at(mix.guest_rtt_ms)]
    if mix.guest is Guest.DOWNLOAD:
        where = lab.servers[server_at(mix.guest_rtt_ms)]
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="air-", dir=isolate.RUN_DIRECTORY)))
        (sending,), _ = stack.enter_context(
            uploading({where: address(GUEST)}, {address(GUEST): machine}, 1, CUBIC, place)
        )
        sending.go()
        return
    words = {
        Guest.DATAGRAMS: ("datagrams", server, "9", str(DATAGRAMS_BPS)),
        Guest.BURSTS: ("bursts", server, str(PORT), str(BURST_S), str(BURST_S)),
    }[mix.guest]
    started(stack, machine, [*PROGRAM, *words])


def started(stack: ExitStack, machine: Machine, words: list[str]) -> None:
    process = machine.popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    stack.callback(process.wait)
    stack.callback(process.kill)
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
