# SPDX-License-Identifier: Apache-2.0
"""Run the variants in turns: losses and faults over shaped paths, then rates over unshaped ones."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from experiments.once.transfers import frame_bytes
from experiments.peers.plan import (
    ASKED_PER_S,
    BLACK,
    CALL_BYTES,
    CALL_PPS,
    DOWN,
    LTE_LOSS_PERCENT,
    PACED_PPS,
    QUIET,
    REBOUND,
    SHAPED,
    SIZES,
    STREAM_BYTES,
    STREAM_PPS,
    UNSHAPED,
    WIFI_BURSTS,
    Fault,
    Plan,
)
from experiments.peers.traffic import Answers, Flow, Span, asking, both_ways, iperf, sampled_stalls
from experiments.peers.variants import VARIANTS, Ends, Variant
from lab.processes.controller import ControllerFailed
from lab.results.figures import percentile
from lab.stage.command import CommandFailed
from lab.stage.failure import ExperimentFailed
from lab.traffic.streaming import till
from topologies.natted import INNER_NETWORKS, OUTER, nat

CALL_PORT, STREAM_PORT = 7400, 7410
USED_S = 0.5  # long enough for 25 datagrams of the call
MORE = 1.5  # copies load both paths alike
OTHER_ADDRESS = 77  # last byte of a NAT's second outer address


@dataclass(frozen=True, slots=True)
class Run:
    """One variant in one round."""

    variant: str
    number: int
    values: Mapping[str, float]  # by a row's key
    stalls: Sequence[Span]

    def __str__(self) -> str:
        stalled_ms = 1000 * sum(ended - began for began, ended in self.stalls)
        shown = ("call_lost", "stream_lost", "answer_p99", "down_lost", "rebound_lost", "black_lost", "rate_200")
        told = ", ".join(f"{key} {self.values[key]:.3g}" for key in shown if key in self.values)
        return (
            f"{self.number} {self.variant}: {told}; the machine stalled {len(self.stalls)} times, {stalled_ms:.0f} ms"
        )


def carry_out(plan: Plan, logs: Path, variants: Iterable[Variant] = VARIANTS) -> Iterator[Run]:
    ready = []
    for variant in variants:
        if variant.missing:
            names = " and ".join(variant.missing)
            _say(f"{variant.name} is left out: build/peers has no {names}; `make peers` builds it")
        else:
            ready.append(variant)
    for number in range(1, plan.rounds + 1):
        for variant in ready:
            yield _run(plan, variant, number, logs)


def _say(text: str) -> None:
    print(f"peers: {text}", file=sys.stderr, flush=True)


def _run(plan: Plan, variant: Variant, number: int, logs: Path) -> Run:
    values = {"failed": 0.0}
    stalls: list[Span] = []
    for name, part in (("shaped", _shaped), ("unshaped", _unshaped)):
        try:
            with sampled_stalls() as stalled:
                found = part(plan, variant, number, logs)
        except (ExperimentFailed, CommandFailed, ControllerFailed) as error:
            _say(f"{variant.name}, {name} paths, round {number}: FAILED: {error}")
            values["failed"] += 1
            continue
        stalls += stalled
        values |= found.values(stalled)
    return Run(variant.name, number, values, stalls)


# Over shaped paths


@dataclass(slots=True)
class _Measured:
    """The figures of a part. Gaps and waits become figures once the stalls are known."""

    plain: dict[str, float]
    gaps: dict[str, tuple[Sequence[Flow], Span]]
    waits: dict[str, tuple[Answers, Span, float]]  # with the percentile

    def values(self, stalls: Sequence[Span]) -> dict[str, float]:
        found = dict(self.plain)
        for suffix, without in (("", ()), (QUIET, stalls)):
            for key, (flows, span) in self.gaps.items():
                found[key + suffix] = max(one.gap_ms(*span, without) for one in flows)
            for key, (answers, span, percent) in self.waits.items():
                if waited := answers.ms(*span, without):
                    found[key + suffix] = percentile(waited, percent)
        return found


def _shaped(plan: Plan, variant: Variant, number: int, logs: Path) -> _Measured:
    measured = _Measured({}, {}, {})
    with variant.start(SHAPED, logs) as ends:
        _lose(ends, damaged=True)
        _measure_losses(plan, variant, ends, measured)
        with iperf(ends) as rates:
            for key, up in (("bulk_up", True), ("bulk_down", False)):
                measured.plain[key] = rates.mbps(plan.bulk_s, up=up)
        _lose(ends, damaged=False)
        _measure_faults(plan, variant, ends, measured, black=number <= variant.blacks)
    return measured


def _lose(ends: Ends, *, damaged: bool) -> None:
    for name, changes in (
        ("wifi", {"bursts": WIFI_BURSTS if damaged else None, "loss_percent": 0.0}),
        ("lte", {"loss_percent": LTE_LOSS_PERCENT if damaged else 0.0}),
    ):
        link = ends.net.uplink(name)
        for way in (link.forward, link.backward):
            way.set(**changes)


def _flows(variant: Variant, ends: Ends, port: int, pps: int, size: int) -> AbstractContextManager[tuple[Flow, ...]]:
    return both_ways(ends, port, pps, size) if variant.datagrams else nullcontext(())


def _wire_bytes(ends: Ends) -> int:
    """Return the bytes that both sides sent on both paths, also those that were lost there."""
    near = frame_bytes(*(f"un-{name}" for name in INNER_NETWORKS), pid=ends.net.machine("homehost").pid).left
    return near + sum(frame_bytes("in", pid=nat(ends.net, name).pid).left for name in INNER_NETWORKS)


def _measure_losses(plan: Plan, variant: Variant, ends: Ends, measured: _Measured) -> None:
    """Run a call, alone at first, then beside requests, then beside a stream."""
    with _flows(variant, ends, CALL_PORT, CALL_PPS, CALL_BYTES) as call:
        alone, call_wire = _watch_wires(plan, ends)
        with asking(ends, ASKED_PER_S) as answers:
            asked, _ = _watch_wires(plan, ends)
        with _flows(variant, ends, STREAM_PORT, STREAM_PPS, STREAM_BYTES) as stream:
            streamed, stream_wire = _watch_wires(plan, ends)
    for key, percent in (("answer_p50", 50), ("answer_p99", 99)):
        measured.waits[key] = answers, asked, percent
    if not variant.datagrams:
        return
    measured.plain["call_wire"] = call_wire / (CALL_BYTES * _lost(call, alone)[1])
    measured.plain["stream_wire"] = stream_wire / (STREAM_BYTES * _lost(stream, streamed)[1])
    for key, flows, span in (("call", call, (alone[0], streamed[1])), ("stream", stream, streamed)):
        lost, sent = _lost(flows, span)
        measured.plain[f"{key}_lost"] = 100 * lost / sent
        measured.gaps[f"{key}_gap"] = flows, span


def _watch_wires(plan: Plan, ends: Ends) -> tuple[Span, int]:
    """Return the watched span and the bytes on the wires."""
    began, before = time.monotonic(), _wire_bytes(ends)
    till(began + plan.alone_s)
    return (began, time.monotonic()), _wire_bytes(ends) - before


def _lost(flows: Sequence[Flow], span: Span) -> tuple[int, int]:
    counted = [one.lost(*span) for one in flows]
    return sum(lost for lost, _ in counted), sum(sent for _, sent in counted)


# Faults of the used path; the other one is clean


def _measure_faults(plan: Plan, variant: Variant, ends: Ends, measured: _Measured, *, black: bool) -> None:
    found: list[tuple[Fault, Answers, Span]] = []
    with _flows(variant, ends, CALL_PORT, CALL_PPS, CALL_BYTES) as call:
        for fault in (DOWN, REBOUND, BLACK) if black else (DOWN, REBOUND):
            with asking(ends, ASKED_PER_S) as answers:  # MPTCP gets a connection with a subflow on each path
                uplink = _used(ends)
                began = time.monotonic()
                {DOWN: _take_down, REBOUND: _rebind, BLACK: _blacken}[fault](plan, uplink, ends)
                found.append((fault, answers, (began, time.monotonic())))
    for fault, answers, span in found:
        measured.waits[f"{fault.key}_answer"] = answers, span, 100
        if variant.datagrams:
            measured.plain[f"{fault.key}_lost"] = _lost(call, span)[0]
            measured.gaps[f"{fault.key}_gap"] = call, span


def _used(ends: Ends) -> str:
    """Return the uplink that carries most; Wi-Fi, if both carry about the same."""
    pid = ends.net.machine("homehost").pid
    before = {name: frame_bytes(f"un-{name}", pid=pid) for name in INNER_NETWORKS}
    till(time.monotonic() + USED_S)
    after = {name: frame_bytes(f"un-{name}", pid=pid) for name in INNER_NETWORKS}
    carried = {name: after[name].came + after[name].left - one.came - one.left for name, one in before.items()}
    return "lte" if carried["lte"] > MORE * carried["wifi"] else "wifi"


def _take_down(plan: Plan, uplink: str, ends: Ends) -> None:
    home, device = ends.net.machine("homehost"), f"un-{uplink}"
    routes = [line.strip() for line in home.run("ip", "route", "show", "dev", device).stdout.splitlines()]
    home.run("ip", "link", "set", device, "down")
    till(time.monotonic() + plan.cut_s)
    # The kernel drops the routes of a link that goes down. A network manager adds them again.
    lines = [
        f"link set {device} up",
        *(f"route replace {line.replace(' linkdown', '')} dev {device}" for line in routes),
    ]
    home.run("ip", "-batch", "-", given="\n".join(lines) + "\n")
    till(time.monotonic() + plan.healed_s)


def _rebind(plan: Plan, uplink: str, ends: Ends) -> None:
    for last in (OTHER_ADDRESS, 10):
        nat(ends.net, uplink).redial(f"{OUTER[uplink]}.{last}/24")
        till(time.monotonic() + plan.cut_s)


def _blacken(plan: Plan, uplink: str, ends: Ends) -> None:
    link = ends.net.uplink(uplink)
    for percent, seconds in ((100, plan.black_s), (0, plan.healed_s)):
        for way in (link.forward, link.backward):
            way.set(loss_percent=percent)
        till(time.monotonic() + seconds)


# Over unshaped paths


def _unshaped(plan: Plan, variant: Variant, _number: int, logs: Path) -> _Measured:
    measured = _Measured({}, {}, {})
    if variant.datagrams:
        with variant.start(UNSHAPED, logs) as ends, iperf(ends) as rates:
            for size in SIZES:
                measured.plain[f"rate_{size}"] = rates.flood_pps(size, plan.rate_s)
                measured.plain[f"cpu_{size}"] = rates.cpu_s_per_gbit(size, plan.rate_s, PACED_PPS)
    return measured
