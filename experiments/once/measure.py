# SPDX-License-Identifier: Apache-2.0
"""Run a plan; compared variants take turns in one laboratory."""

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
    CutRun,
    DatagramRun,
    PingRun,
    both_ways,
    run_cuts,
    run_datagrams,
    run_pings,
)
from experiments.once.plan import JITTER, MODES, ONCE, SCENARIOS, SINGLE, TWICE, UPLOADS, Plan, Scenario
from experiments.once.transfers import (
    BlackoutRun,
    BulkRun,
    RequestRun,
    UploadRun,
    run_blackout,
    run_bulk,
    run_requests,
    run_upload,
)
from lab.processes.controller import LOOK_EVERY_S, TREE
from lab.stage import isolate
from lab.stage.command import run
from lab.stage.failure import ExperimentFailed
from lab.traffic.numbered import Counted
from lab.traffic.streaming import till
from topologies.natted import DEFAULT_MTU, OUTER, nat
from topologies.twin import FAR

# A flood of packets through the kernel program
#
# agent/elimination/deluge_test.go uses its own devices: no switch here is that fast.

GO = TREE / "setup" / "go.sh"
TEST = "TestOfADelugeByTwoBadPathsNothingIsLostByElimination"
LONGEST = "20m"


@dataclass(frozen=True, slots=True)
class FloodRun:
    """Packet counts, named as in the Go test's JSON."""

    sent: int
    lost_by_both: int  # both paths
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
    stalled: str = ""  # counts do not depend on time

    def __str__(self) -> str:
        told = f"{self.lost_by_both} lost by both paths, {self.lost_by_elimination} by elimination"
        room = f"window {self.window_ms:.0f} ms, room for {self.room_before} packets and in the end for {self.room}"
        return f"{self.sent} packets in {self.seconds:.0f} s: {told}, {self.duplicated} duplicated; {room}"


def run_flood(packets: int) -> FloodRun:
    with tempfile.TemporaryDirectory(prefix="deluge-", dir=isolate.RUN_DIRECTORY) as place:
        told = Path(place) / "told"
        words = ("test", "-count=1", f"-timeout={LONGEST}", "-run", f"^{TEST}$", "./agent/elimination", "-args")
        many = ("-packets", str(packets), "-told", str(told))
        done = run(str(GO), "-C", str(TREE), *words, *many, check=False)  # losses are a result
        if not told.exists():
            raise ExperimentFailed(f"the deluge of {packets} packets did not finish: {done.stdout}{done.stderr}")
        return FloodRun(**json.loads(told.read_text(encoding="utf-8")))


# A silent death of Wi-Fi, its ports up

BEFORE_S = 3.0  # two reports with copies on both paths
GROUPS_LOOK_EVERY_S = 0.005
WITHIN_S = 20.0
REPORTED_WITHIN_S = 2.0  # promised


@dataclass(frozen=True, slots=True)
class DeathRun:
    reported_s: float  # until the controller reports, for either site, that Wi-Fi brings no copies
    cleared_s: Mapping[str, float]  # from then until no group of a site sends on Wi-Fi
    log: str  # controller's log meanwhile
    stalled: str

    def __str__(self) -> str:
        left = ", ".join(f"{each * 1000:.0f} ms at {site}" for site, each in self.cleared_s.items())
        told = f"Wi-Fi died: reported after {self.reported_s:.2f} s, then out of the groups after {left}"
        return f"{told}; the controller logged:\n{self.log.strip()}" if self.reported_s > REPORTED_WITHIN_S else told


def run_death(lab: Laboratory) -> DeathRun:
    reported_at, gone = None, dict[str, float]()
    log_before = len(lab.controller.log_text())
    lab.stalled()  # forget earlier stalls
    with both_ways(lab, THIN_PPS):
        till(time.monotonic() + BEFORE_S)
        death = time.monotonic()
        lab.lose(wifi=100)
        while reported_at is None or len(gone) < len(lab.sites):
            if reported_at is None and _is_reported(lab):
                reported_at = time.monotonic()
            gone |= {each.name: time.monotonic() for each in lab.sites if each.name not in gone and not sends(each)}
            if time.monotonic() > death + WITHIN_S:
                raise ExperimentFailed(
                    f"groups still send on Wi-Fi {WITHIN_S:.0f} s after its death, except at {[*gone]}"
                )
            till(time.monotonic() + GROUPS_LOOK_EVERY_S)
    # polled in turn: groups may show it first
    left = {site: max(0.0, moment - reported_at) for site, moment in gone.items()}
    return DeathRun(reported_at - death, left, lab.controller.log_text()[log_before:], lab.stalled())


def _is_reported(lab: Laboratory) -> bool:
    gateways = lab.controller.client.get("status")["gateways"]
    return any(silent["uplink"] == ACTIVE for one in gateways for silent in one["copies"]["silent"])


# Tunnels: headers, and a changed outer address

ADDRESSES = tuple(f"{OUTER[ACTIVE]}.{last}" for last in (77, 10))  # in turns; the last is the original
AROUND_S = 1.0  # before the address changes, and after the far end follows
FOLLOWED_WITHIN_S = 3.0  # promised
FRAME_BYTES = 14  # before an IP packet
# Before TCP's payload: IPv4, TCP, timestamps, and MPTCP's mapping with an acknowledgement.
HEADER_BYTES = 20 + 20 + 12 + 24
TUNNEL_BYTES = FRAME_BYTES + 20 + 8 + 32 + 40 + 8 + 8  # Ethernet inside; IPv4, UDP, WireGuard, IPv6, UDP, VXLAN


@dataclass(frozen=True, slots=True)
class TunnelRun:
    """A run that plain uplinks get too."""

    run: PingRun | BulkRun
    largest_bytes: int  # inner IP packet

    def __str__(self) -> str:
        return f"through tunnels of {self.largest_bytes} bytes: {self.run}"

    @property
    def stalled(self) -> str:
        return self.run.stalled


@dataclass(frozen=True, slots=True)
class AddressChangeRun:
    mode: str
    took_s: float  # until the far agent reports the new address
    ways: Mapping[str, Counted]
    stalled: str

    def __str__(self) -> str:
        told = f"followed after {self.took_s:.2f} s, {self.lost} of {self.sent} lost, {self.duplicates} duplicated"
        return f"another outer address of Wi-Fi's, {self.mode}: {told}"

    @property
    def sent(self) -> int:
        return sum(way.sent for way in self.ways.values())

    @property
    def lost(self) -> int:
        return sum(len(way.lost) for way in self.ways.values())

    @property
    def duplicates(self) -> int:
        return sum(way.duplicates for way in self.ways.values())


def run_address_change(lab: Laboratory, mode: str, address: str) -> AddressChangeRun:
    lab.stalled()  # forget earlier stalls
    with both_ways(lab, RATE_PPS, BYTES) as both:
        till(time.monotonic() + AROUND_S)
        changed = time.monotonic()
        nat(lab.net, ACTIVE).redial(f"{address}/24")
        while not lab.peer(lab.sites[-1].name, ACTIVE).startswith(f"{address}:"):
            if time.monotonic() > changed + WITHIN_S:
                raise ExperimentFailed(f"{FAR}: {ACTIVE} did not follow its peer to {address} within {WITHIN_S:.0f} s")
            time.sleep(LOOK_EVERY_S)
        took_s = time.monotonic() - changed
        till(time.monotonic() + AROUND_S)
    return AddressChangeRun(mode, took_s, both.ways, lab.stalled())


def goodput_share_in_tunnels(largest_bytes: int) -> float:
    """Return the share of Ethernet goodput that a full link keeps."""
    inside = (largest_bytes - HEADER_BYTES) / (FRAME_BYTES + TUNNEL_BYTES + largest_bytes)
    return inside * (FRAME_BYTES + DEFAULT_MTU) / (DEFAULT_MTU - HEADER_BYTES)


ATTEMPTS = 4  # when the machine stalled
Run: TypeAlias = (
    PingRun
    | DatagramRun
    | CutRun
    | RequestRun
    | UploadRun
    | FloodRun
    | BulkRun
    | BlackoutRun
    | DeathRun
    | TunnelRun
    | AddressChangeRun
)


def carry_out(plan: Plan, logs: Path) -> Iterator[Run]:
    yield run_flood(plan.flood_packets)
    with laboratory(TWIN, logs) as lab:
        yield from _pings(lab, plan, reordered=False)
        for mode, those in groupby(plan.flows, key=lambda each: each[0]):
            lab.pin(mode)
            yield from (run_datagrams(lab, mode, losses, plan.flow_s) for _, losses in those)
        for _, mode in product(range(plan.rounds), MODES):
            lab.pin(mode)
            yield run_requests(lab, mode, plan.ask_s)
        for mode in (ONCE, SINGLE):
            lab.pin(mode)
            yield run_cuts(lab, mode, plan.cuts)
            lab.recover()
            for queue_ms in UPLOADS[mode]:
                yield run_upload(lab, mode, queue_ms, plan.upload_cuts)
                lab.recover()
            yield from _bulk(lab, mode, plan)
        for _, mode in product(range(plan.blackouts), (ONCE, SINGLE)):
            lab.pin(mode)
            yield run_blackout(lab, mode)
            lab.recover()
        lab.pin(ONCE)
        for _ in range(plan.deaths):
            yield run_death(lab)
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
        yield from (TunnelRun(run, largest_bytes) for run in _bulk(lab, mode, plan))
    for mode in (ONCE, SINGLE):
        lab.pin(mode)
        for _, address in product(range(plan.tunnelled), ADDRESSES):
            yield run_address_change(lab, mode, address)
            lab.recover()
    lab.pin(ONCE)
    for _, scenario in product(range(plan.tunnelled), SCENARIOS[:2]):
        yield from (TunnelRun(run, largest_bytes) for run in _counting(lab, plan, scenario))


def _bulk(lab: Laboratory, how: str, plan: Plan) -> Iterator[BulkRun]:
    yield from (run_bulk(lab, how, way, plan.bulk_s) for way in (UP, DOWN))


def _pings(lab: Laboratory, plan: Plan, reordered: bool) -> Iterator[PingRun]:
    lab.pin(ONCE)
    those = [scenario for scenario in SCENARIOS if scenario.reordered is reordered]
    for _, scenario in product(range(plan.rounds), those):
        yield from _counting(lab, plan, scenario)


def _counting(lab: Laboratory, plan: Plan, scenario: Scenario) -> Iterator[PingRun]:
    for _ in range(ATTEMPTS):
        run = run_pings(lab, scenario, plan.pings)
        yield run
        if scenario.after_percent == 100:
            lab.recover()
        if not run.stalled:
            break
