# SPDX-License-Identifier: Apache-2.0
"""Mixes of capped and uncapped senders drawn at random, each under `off` and `ideal`.

    python -m experiments.air.starvation.drawn SEED [--mixes 20] [--unwritten]

The exit code is 1 if a capped terminal got less than 0.9 of its share: the rate under `off`, at most the mean rate
there of its kind: terminals that send all the time, or that pause.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean

from experiments.air.endpoints import PORT, received, uploading
from experiments.air.laboratory import Laboratory
from experiments.air.plan import BBR, CUBIC
from experiments.air.starvation import measure
from experiments.air.starvation.measure import DATAGRAMS_BPS, PROGRAM, laboratory, released
from experiments.air.starvation.plan import GUEST, HELD, PROMISED, RTTS_MS, RULES, server_at
from lab.processes.agents import AgentProcess
from lab.stage import isolate
from lab.stage.nodes import Machine
from lab.traffic.streaming import till
from topologies.access_point import SERVERS, address

BURSTS_S = (0.3, 5.0)
GUEST_S, COUNTED_S, ENDS_S = 4.0, 6.0, 18.0  # the uncapped sender begins; counting begins, and ends
UPLOAD, DOWNLOAD, DATAGRAMS, NONE = "upload", "download", "UDP", "none"


@dataclass(frozen=True, slots=True)
class Capped:
    rtt_ms: int
    control: str
    burst_s: tuple[float, float] | None  # sends, pauses; None: sends all the time

    def __str__(self) -> str:
        burst = f" {self.burst_s[0]:.1f}/{self.burst_s[1]:.1f} s" if self.burst_s else ""
        return f"{self.rtt_ms} ms {self.control}{burst}"


@dataclass(frozen=True, slots=True)
class Drawn:
    capped: tuple[Capped, ...]
    guest: str
    guest_rtt_ms: int
    guest_burst_s: tuple[float, float] | None
    by_gateway: bool
    is_written: bool

    def __str__(self) -> str:
        burst = f" {self.guest_burst_s[0]:.1f}/{self.guest_burst_s[1]:.1f} s" if self.guest_burst_s else ""
        guest = self.guest if self.guest == NONE else f"{self.guest} {self.guest_rtt_ms} ms{burst}"
        each = ", ".join(map(str, self.capped))
        return (
            f"{'gateway' if self.by_gateway else 'agents'}, {'' if self.is_written else 'un'}written: {each}; {guest}"
        )


def drawn(seed: int, count: int, written: bool | None = None) -> list[Drawn]:
    random = Random(seed)
    return [_drawn(random, written) for _ in range(count)]


def _drawn(random: Random, written: bool | None) -> Drawn:
    def burst(chance: float) -> tuple[float, float] | None:
        both = random.uniform(*BURSTS_S), random.uniform(*BURSTS_S)
        return both if random.random() < chance else None

    def one(number: int) -> Capped:
        found = burst(0.3)  # the first sends all the time
        return Capped(
            random.choice(tuple(RTTS_MS.values())), random.choice((CUBIC, CUBIC, BBR)), found if number else None
        )

    capped = tuple(one(number) for number in range(random.randint(1, len(HELD))))
    guest = random.choice((UPLOAD, UPLOAD, DOWNLOAD, DATAGRAMS, NONE))
    found = burst(0.5)
    guest_burst_s = found if guest == UPLOAD else None
    rtt_ms, by_gateway, unknown = random.choice(tuple(RTTS_MS.values())), random.random() < 0.3, random.random() < 0.3
    return Drawn(capped, guest, rtt_ms, guest_burst_s, by_gateway, not unknown if written is None else written)


@dataclass(frozen=True, slots=True)
class Run:
    drawn: Drawn
    rule: str
    bps: tuple[float, ...]
    guest_bps: float
    release_reason: str  # at the last look
    stalled: str

    def __str__(self) -> str:
        each = " ".join(f"{bps / 1e6:.2f}" for bps in self.bps)
        late = "; the machine stalled" if self.stalled else ""
        return f"{self.drawn}; {self.rule}: {each}, guest {self.guest_bps / 1e6:.2f}{late}; {self.release_reason}"


def shares(off: Run, ideal: Run) -> list[float]:
    alike = [
        [bps for bps, one in zip(off.bps, off.drawn.capped, strict=True) if bool(one.burst_s) == pauses]
        for pauses in (False, True)
    ]
    most = [mean(each) if each else 0.0 for each in alike]
    limits = [min(bps, most[bool(one.burst_s)]) for bps, one in zip(off.bps, off.drawn.capped, strict=True)]
    return [got / max(limit, 1.0) for got, limit in zip(ideal.bps, limits, strict=True)]


def carry_out(mixes: Sequence[Drawn], logs: Path) -> Iterator[tuple[Run, Run]]:
    for by_gateway in (False, True):
        those = [mix for mix in mixes if mix.by_gateway == by_gateway]
        if those:
            with laboratory(by_gateway, logs) as (lab, agents):
                for mix in those:
                    off, ideal = (_run(lab, agents, mix, rule) for rule in RULES)
                    yield off, ideal


def _run(lab: Laboratory, agents: dict[str, AgentProcess], mix: Drawn, rule: str) -> Run:
    guest = agents.get(GUEST)
    if guest is not None and not guest.ended:
        guest.kill()
    lab.await_quiet()
    measure.set_rule(lab, rule, is_listed=not mix.by_gateway, is_written=mix.is_written)
    lab.forget()
    servers = {SERVERS[name]: each for name, each in lab.servers.items()}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="air-", dir=isolate.RUN_DIRECTORY)))
        _, serving = stack.enter_context(uploading({}, servers, 1, CUBIC, place))
        lab.spoilt()
        began = time.monotonic()
        for name, one in zip(HELD, mix.capped, strict=False):
            _uploads(stack, lab.net.machine(name), SERVERS[server_at(one.rtt_ms)], one.burst_s, one.control)
        till(began + GUEST_S)
        _guest(stack, lab, mix, place)
        reasons = list(released(lab, began + ENDS_S))
        stalled = lab.spoilt()
        reads = array("d")
        for end in serving:
            reads.extend(end.finish())
    come = received(reads, [address(name) for name in (*HELD, GUEST)])
    until = began + ENDS_S
    return Run(
        mix,
        rule,
        tuple(one.bps(began + COUNTED_S, until) for one in come[: len(mix.capped)]),
        come[-1].bps(began + COUNTED_S, until),
        next((reason for reason in reversed(reasons) if reason), ""),
        stalled,
    )


def _uploads(
    stack: ExitStack, machine: Machine, server: str, burst_s: tuple[float, float] | None, control: str
) -> None:
    on_s, off_s = burst_s or (1e6, 0.0)
    measure.started(stack, machine, [*PROGRAM, "bursts", server, str(PORT), str(on_s), str(off_s), control])


def _guest(stack: ExitStack, lab: Laboratory, mix: Drawn, place: Path) -> None:
    machine, name = lab.net.machine(GUEST), server_at(mix.guest_rtt_ms)
    if mix.guest == UPLOAD:
        _uploads(stack, machine, SERVERS[name], mix.guest_burst_s, CUBIC)
    elif mix.guest == DATAGRAMS:
        measure.started(stack, machine, [*PROGRAM, "datagrams", SERVERS[name], "9", str(DATAGRAMS_BPS)])
    elif mix.guest == DOWNLOAD:
        where = {lab.servers[name]: address(GUEST)}
        own = place / "download"
        own.mkdir()
        (sending,), _ = stack.enter_context(uploading(where, {address(GUEST): machine}, 1, CUBIC, own))
        sending.go()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.air.starvation.drawn", allow_abbrev=False)
    parser.add_argument("seed", type=int)
    parser.add_argument("--mixes", type=int, default=20)
    parser.add_argument("--written", choices=("yes", "no"), help="bandwidth_bps in the file; else drawn")
    args = parser.parse_args(argv)
    isolate.enter()
    written = None if args.written is None else args.written == "yes"
    found: list[tuple[Drawn, list[float]]] = []
    with tempfile.TemporaryDirectory(prefix="drawn-") as logs:
        for off, ideal in carry_out(drawn(args.seed, args.mixes, written), Path(logs)):
            print(off, ideal, sep="\n", flush=True)
            found.append((off.drawn, shares(off, ideal)))
            print(f"    least share {min(found[-1][1]):.2f}", flush=True)
    for mix, each in found:
        print(f"| {mix} | {' '.join(f'{one:.2f}' for one in each)} | {min(each):.2f} |")
    less = sum(min(each) < PROMISED for _, each in found)
    print(f"{less} of {len(found)} mixes have a capped terminal below {PROMISED} of its share")
    return int(less > 0)


if __name__ == "__main__":
    sys.exit(main())
