# SPDX-License-Identifier: Apache-2.0
"""The cost of the pair is judged beside the direct connection of the same run. The real pair is measured once."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from experiments.relay.cost import CAMPAIGN, measure
from experiments.relay.cost.measure import (
    ClockReading,
    CrowdRun,
    FirstByteRun,
    ProcessUsage,
    Run,
    ShortRun,
    TransferRun,
    other_load,
    run_crowd,
    run_short,
    run_transfer,
)
from experiments.relay.cost.plan import DOWN, SHORT, UP
from experiments.relay.cost.proxies import DIRECT, HAPROXY, PAIR, SING_BOX, running_routes
from experiments.relay.cost.report import HEADER, figures


def a_transfer(way: str, gbps: float, direction: str = DOWN, stalled: str = "", whole: bool = True) -> TransferRun:
    return TransferRun(
        way, direction, 0, whole, 2 * gbps, 2.0, gateway_s=0.2 * gbps, relay_s=0.4 * gbps, stalled=stalled
    )


def reaching(way: str, connected_ms: float, first_ms: float) -> FirstByteRun:
    return FirstByteRun(way, 0, (connected_ms,) * 3, (first_ms,) * 3, "")


def judged(*those: Run) -> dict[str, tuple[Any, bool | None]]:
    return {one.what.strip(): (one.value, one.met) for one in figures(those)}


def test_the_pair_must_be_the_fastest_with_mutual_tls() -> None:
    others = [a_transfer(DIRECT, 20.0), a_transfer(HAPROXY, 2.0), a_transfer(SING_BOX, 3.0)]
    told = judged(*others, *(a_transfer(PAIR, rate) for rate in (0.5, 4.0, 5.0)))
    assert told[f"{PAIR}, of the fastest other's with mutual TLS ({SING_BOX})"] == (pytest.approx(4 / 3), True)
    assert told["of direct's"][0] == 0.15  # the last is sing-box's
    assert told["processor at the gateway, of all its transfers"][0] == pytest.approx(0.1)
    assert told["processor at the relay, of all its transfers"][0] == pytest.approx(0.2)
    slower = judged(*others, a_transfer(PAIR, 2.9))
    assert slower[f"{PAIR}, of the fastest other's with mutual TLS ({SING_BOX})"][1] is False


def test_broken_transfers_count_and_stalled_ones_do_not() -> None:
    good = a_transfer(PAIR, 4.0, UP)
    broken = f"transfers that broke, or of which bytes are missing: {PAIR}"
    assert judged(good)[broken] == (0, True)
    told = judged(good, a_transfer(PAIR, 0.0, UP, whole=False), a_transfer(HAPROXY, 0.0, UP, whole=False))
    assert (told[broken], told[broken.replace(PAIR, HAPROXY)]) == ((1, False), (1, None))
    assert told["up: pair"][0] == 4
    assert list(figures([good, a_transfer(PAIR, 0.1, UP, stalled="others had 40 %")])) == list(figures([good]))


@pytest.mark.parametrize(("first_ms", "met"), [(64.0, True), (65.0, False)])
def test_the_first_byte_is_judged_in_direct_round_trips(first_ms: float, met: bool) -> None:
    told = judged(reaching(DIRECT, 40.0, 80.0), reaching(PAIR, 0.3, first_ms))
    assert told["added, in direct's round trips"] == (pytest.approx((first_ms - 80) / 40), met)
    other = judged(reaching(DIRECT, 40.0, 80.0), reaching(HAPROXY, 0.3, 104.0))
    assert other["added, in direct's round trips"] == (0.6, None)


def test_a_crowd_counts_unanswered_and_memory_per_thousand() -> None:
    told = judged(CrowdRun(PAIR, 5000, 4999, gateway_mb=200, relay_mb=150))
    assert told[f"5000 open at once, {PAIR}: unanswered"] == (1, False)
    assert told["memory at the gateway for 1000 idle"][0] == 40
    assert told["memory at the relay for 1000 idle"][0] == 30
    told = judged(CrowdRun(PAIR, 200, 200, gateway_mb=20, relay_mb=15, unread=True))
    assert told[f"200 whose download nobody reads, {PAIR}: unanswered"] == (0, True)
    assert told["memory at the relay, more than before"][0] == 15


def test_a_leak_is_more_files_or_late_growth_of_memory() -> None:
    def told(*at_gateway: ProcessUsage) -> dict[str, tuple[Any, bool | None]]:
        return judged(ShortRun(PAIR, 5000, 5000, at_gateway, (ProcessUsage(20, 26),) * len(at_gateway)))

    once = told(
        ProcessUsage(20, 26), ProcessUsage(30, 27), ProcessUsage(29, 26), ProcessUsage(31, 28), ProcessUsage(30, 26)
    )
    assert once["files at the gateway, more than before"] == (0, True)
    assert once["memory at the gateway, grown in the second half"] == (0, True)
    leaking = told(*(ProcessUsage(20 + 2 * step, 26 + step) for step in range(5)))
    assert leaking["files at the gateway, more than before"] == (4, False)
    assert leaking["memory at the gateway, grown in the second half"] == (pytest.approx(100 * 4 / 24), False)
    assert leaking["memory at the relay, grown in the second half"] == (0, True)


def test_load_of_other_processes_spoils_a_transfer() -> None:
    before = ClockReading(run_short=1000, working=500, interrupted=100, ours=300)
    assert other_load(before, ClockReading(1200, 640, 120, 430)) == ""  # a tenth of ours is interrupts'
    assert other_load(before, ClockReading(1200, 640, 120, 400)) == "others had 25 % of the processors for 0.5 s"


@pytest.mark.timed
def test_the_pair_is_measured_and_the_report_names_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "STEPS", 1)
    monkeypatch.setattr(measure, "SAME_FOR_S", 0.1)
    with running_routes(names=(DIRECT, PAIR)) as (net, (direct, pair)):
        found: list[Run] = [run_transfer(net, way, each, 0, 0.3) for way in (direct, pair) for each in (DOWN, UP)]
        found += [run_crowd(net, pair, 50), run_crowd(net, pair, 5, unread=True), run_short(net, pair, 20)]
        told = net.machine("gateway").run("nstat", "--ignore", "--zeros", "--json", "MPTcpExtMPCapableSYNACKRX").stdout
        assert json.loads(told)["kernel"]["MPTcpExtMPCapableSYNACKRX"] >= 4, "gateway and relay do not speak MPTCP"
    transfers = [one for one in found if isinstance(one, TransferRun)]
    assert all(one.whole and one.gbit > 0 for one in transfers)
    assert [sum(one.gateway_s for one in transfers if one.way == way) > 0 for way in (DIRECT, PAIR)] == [False, True]
    assert [one.answered for one in found if isinstance(one, CrowdRun | ShortRun)] == [50, 5, 20]
    CAMPAIGN.present(SHORT, found, tmp_path, as_json=True)
    document = json.loads(capsys.readouterr().out)
    with Path(document["csv"]).open(encoding="utf-8") as file:
        lines = list(csv.reader(file))
    assert tuple(lines[0]) == HEADER and all(len(line) == len(HEADER) for line in lines)
    assert Path(document["plots"][0]).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
