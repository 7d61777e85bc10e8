# SPDX-License-Identifier: Apache-2.0
"""Measure all that a plan asks for, one after the other: what is compared takes turns in one laboratory."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from typing import TypeAlias

from experiments.laboratories.two_sites import ACTIVE, NATTED, TWIN, Laboratory, laboratory, sends
from experiments.once.datagrams import (
    BYTES,
    DOWN,
    RATE_PPS,
    THIN_PPS,
    UP,
    Cut,
    Flowed,
    Pinged,
    both_ways,
    cut,
    flowed,
    pinged,
)
from experiments.once.plan import JITTER, MODES, ONCE, SCENARIOS, SINGLE, TWICE, UPLOADS, Plan, Scenario
from experiments.once.transfers import Asked, Blackened, Carried, Uploaded, asked, blackened, carried, uploaded
from lab.processes.controller import TREE
from lab.stage import isolate
from lab.stage.command import run
from lab.stage.failure import ExperimentFailed
from lab.traffic.numbered import Counted
from lab.traffic.streaming import till
from topologies.natted import DEFAULT_MTU, OUTER, nat
from topologies.twin import FAR

# A deluge of numbered packets through the kernel program, by two paths that delay them and lose bursts of them.
# agent/elimination/deluge_test.go sends and counts them over devices of its own: no switch keeps that pace here.

GO = TREE / "setup" / "go.sh"
TEST = "TestOfADelugeByTwoBadPathsNothingIsLostByElimination"
LONGEST = "20m"


@dataclass(frozen=True, slots=True)
class Deluged:
    """Numbers of packets; as Go tells them."""

    sent: int
    lost_by_both: int  # paths
    delivered: int
    lost_by_elimination: int
    duplicated: int
    late: int
    rogue: int
    evicted: int
    window_ms: float
    room_before: int  # identities
    room: int
    seconds: float
    stalled: str = ""  # nothing that is counted depends on time

    def __str__(self) -> str:
        told = f"{self.lost_by_both} lost by both paths, {self.lost_by_elimination} by elimination"
        room = f"window {self.window_ms:.0f} ms, room for {self.room_before} packets and in the end for {self.room}"
        return f"{self.sent} packets in {self.seconds:.0f} s: {told}, {self.duplicated} duplicated; {room}"


def deluged(packets: int) -> Deluged:
    with tempfile.TemporaryDirectory(prefix="deluge-", dir=isolate.RUN_DIRECTORY) as place:
        told = Path(place) / "told"
        words = ("test", "-count=1", f"-timeout={LONGEST}", "-run", f"^{TEST}$", "./agent/elimination", "-args")
        many = ("-packets", str(packets), "-told", str(told))
        done = run(
            str(GO), "-C", str(TREE), *words, *many, check=False
        )  # that packets are lost is for the figures to say
        if not told.exists():
            raise ExperimentFailed(
                f"the deluge of {packets} packets came to no end, but to: {done.stdout}{done.stderr}"
            )
        return Deluged(**json.loads(told.read_text(encoding="utf-8")))


# A silent death of Wi-Fi, its ports up: the time until it is reported, and until neither switch copies onto it.

BEFORE_S = 3.0  # both paths have brought copies, and two reports have told of it
GROUPS_LOOK_EVERY_S = 0.005
WITHIN_S = 20.0
TOLD_S = 2.0  # promised


@dataclass(frozen=True, slots=True)
class Died:
    told_s: float  # from the death until the controller tells that Wi-Fi brings no copies, at either site
    left_s: Mapping[str, float]  # from that on until no group of a site sends by Wi-Fi
    said: str  # by the controller meanwhile
    stalled: str

    def __str__(self) -> str:
        left = ", ".join(f"{each * 1000:.0f} ms at {site}" for site, each in self.left_s.items())
        told = f"Wi-Fi died: told after {self.told_s:.2f} s, then out of the groups after {left}"
        return f"{told}; the controller said:\n{self.said.strip()}" if self.told_s > TOLD_S else told


def died(lab: Laboratory) -> Died:
    """Everything is copied."""
    told, gone = None, dict[str, float]()
    heard = len(lab.controller.heard())
    lab.stalled()  # from here on it counts
    with both_ways(lab, THIN_PPS):
        till(time.monotonic() + BEFORE_S)
        death = time.monotonic()
        lab.lose(wifi=100)
        while told is None or len(gone) < len(lab.sites):
            if told is None and _is_told(lab):
                told = time.monotonic()
            gone |= {each.name: time.monotonic() for each in lab.sites if each.name not in gone and not sends(each)}
            if time.monotonic() > death + WITHIN_S:
                raise ExperimentFailed(f"{WITHIN_S:.0f} s after Wi-Fi's death groups send by it, but at {[*gone]}")
            till(time.monotonic() + GROUPS_LOOK_EVERY_S)
    # Who looks at one thing after the other may see the groups first.
    left = {site: max(0.0, moment - told) for site, moment in gone.items()}
    return Died(told - death, left, lab.controller.heard()[heard:], lab.stalled())


def _is_told(lab: Laboratory) -> bool:
    gateways = lab.controller.client.get("status")["gateways"]
    return any(silent["uplink"] == ACTIVE for one in gateways for silent in one["copies"]["silent"])


# Tunnels: what their headers take, and what is lost while the far end follows another outer address.

ADDRESSES = tuple(f"{OUTER[ACTIVE]}.{last}" for last in (77, 10))  # in turns; the last is that of the beginning
TUNNEL_PORT = f"tf-{ACTIVE}"
AROUND_S = 1.0  # for which it is watched before the address changes, and after it was followed
PEER_LOOK_EVERY_S = 0.01
FOLLOWED_S = 3.0  # promised
FRAME_BYTES = 14  # before an IP packet
# Before TCP's payload: IPv4 and TCP, its timestamps, and MPTCP's mapping with an acknowledgement.
HEADER_BYTES = 20 + 20 + 12 + 24
TUNNEL_BYTES = FRAME_BYTES + 20 + 8 + 8  # Ethernet inside; IPv4, UDP and VXLAN


@dataclass(frozen=True, slots=True)
class Tunnelled:
    """What is measured over plain uplinks, too."""

    run: Pinged | Carried
    largest_bytes: int  # of an IP packet inside

    def __str__(self) -> str:
        return f"through tunnels of {self.largest_bytes} bytes: {self.run}"

    @property
    def stalled(self) -> str:
        return self.run.stalled


@dataclass(frozen=True, slots=True)
class Followed:
    mode: str
    took_s: float  # until the far site's kernel sends to the new address
    ways: Mapping[str, Counted]
    stalled: str

    def __str__(self) -> str:
        told = (
            f"followed after {self.took_s:.2f} s, {self.lost} of {self.sent} datagrams lost, {self.doubled} duplicated"
        )
        return f"another outer address of Wi-Fi's, {self.mode}: {told}"

    @property
    def sent(self) -> int:
        return sum(way.sent for way in self.ways.values())

    @property
    def lost(self) -> int:
        return sum(len(way.lost) for way in self.ways.values())

    @property
    def doubled(self) -> int:
        return sum(way.doubled for way in self.ways.values())


def followed(lab: Laboratory, mode: str, address: str) -> Followed:
    """The mode is in force already, and Wi-Fi's NAT has another address."""
    lab.stalled()  # from here on it counts
    with both_ways(lab, RATE_PPS, BYTES) as both:
        till(time.monotonic() + AROUND_S)
        changed = time.monotonic()
        nat(lab.net, ACTIVE).redial(f"{address}/24")
        while f"00:00:00:00:00:00 dst {address} " not in run("bridge", "fdb", "show", "dev", TUNNEL_PORT).stdout:
            if time.monotonic() > changed + WITHIN_S:
                raise ExperimentFailed(
                    f"{FAR}: {WITHIN_S:.0f} s after it {TUNNEL_PORT} does not follow its peer to {address}"
                )
            time.sleep(PEER_LOOK_EVERY_S)  # the kernel tells nobody of an entry that another process has changed
        took_s = time.monotonic() - changed
        till(time.monotonic() + AROUND_S)
    return Followed(mode, took_s, both.ways, lab.stalled())


def left_by_headers(largest_bytes: int) -> float:
    """The share of TCP's goodput over Ethernet that remains in tunnels, of a link that is full in either case."""
    inside = (largest_bytes - HEADER_BYTES) / (FRAME_BYTES + TUNNEL_BYTES + largest_bytes)
    return inside * (FRAME_BYTES + DEFAULT_MTU) / (DEFAULT_MTU - HEADER_BYTES)


ATTEMPTS = 4  # while the machine stalls
Run: TypeAlias = Pinged | Flowed | Cut | Asked | Uploaded | Deluged | Carried | Blackened | Died | Tunnelled | Followed


def carry_out(plan: Plan, logs: Path) -> Iterator[Run]:
    """Those in which the machine stalled are among them."""
    yield deluged(plan.deluge)
    with laboratory(TWIN, logs) as lab:
        yield from _pings(lab, plan, reordered=False)
        for mode, those in groupby(plan.flows, key=lambda each: each[0]):
            lab.pin(mode)
            yield from (flowed(lab, mode, losses, plan.flow_s) for _, losses in those)
        for _, mode in product(range(plan.rounds), MODES):
            lab.pin(mode)
            yield asked(lab, mode, plan.ask_s)
        for mode in (ONCE, SINGLE):
            lab.pin(mode)
            yield cut(lab, mode, plan.cuts)
            lab.recover()
            for queue_ms in UPLOADS[mode]:
                yield uploaded(lab, mode, queue_ms, plan.upload_cuts)
                lab.recover()
            yield from _bulk(lab, mode, plan)
        for _, mode in product(range(plan.blacks), (ONCE, SINGLE)):
            lab.pin(mode)
            yield blackened(lab, mode)
            lab.recover()
        lab.pin(ONCE)
        for _ in range(plan.deaths):
            yield died(lab)
            lab.recover()
    with laboratory(NATTED, logs) as lab:
        yield from _through_tunnels(lab, plan)
    with laboratory(TWIN, logs, eliminated=False) as lab:
        lab.pin(ONCE)
        yield from _bulk(lab, TWICE, plan)
    with laboratory(TWIN, logs, slower=JITTER) as lab:
        yield from _pings(lab, plan, reordered=True)


def _through_tunnels(lab: Laboratory, plan: Plan) -> Iterator[Run]:
    largest_bytes = lab.largest_bytes()
    for _, mode in product(range(plan.tunnelled), (ONCE, SINGLE)):
        lab.pin(mode)
        yield from (Tunnelled(run, largest_bytes) for run in _bulk(lab, mode, plan))
    for mode in (ONCE, SINGLE):
        lab.pin(mode)
        for _, address in product(range(plan.tunnelled), ADDRESSES):
            yield followed(lab, mode, address)
            lab.recover()
    lab.pin(ONCE)
    for _, scenario in product(range(plan.tunnelled), SCENARIOS[:2]):
        yield from (Tunnelled(run, largest_bytes) for run in _counting(lab, plan, scenario))


def _bulk(lab: Laboratory, how: str, plan: Plan) -> Iterator[Carried]:
    yield from (carried(lab, how, way, plan.bulk_s) for way in (UP, DOWN))


def _pings(lab: Laboratory, plan: Plan, reordered: bool) -> Iterator[Pinged]:
    lab.pin(ONCE)
    those = [scenario for scenario in SCENARIOS if scenario.reordered is reordered]
    for _, scenario in product(range(plan.rounds), those):
        yield from _counting(lab, plan, scenario)


def _counting(lab: Laboratory, plan: Plan, scenario: Scenario) -> Iterator[Pinged]:
    """Again, while it does not count."""
    for _ in range(ATTEMPTS):
        run = pinged(lab, scenario, plan.pings)
        yield run
        if scenario.after_percent == 100:
            lab.recover()
        if not run.stalled:
            break
