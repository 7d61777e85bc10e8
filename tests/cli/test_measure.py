# SPDX-License-Identifier: Apache-2.0
"""`measure` probes a path and prints the results. `status` has a line for each path and direction."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from cli import REFUSED
from cli.__main__ import main
from tests.cli.conftest import Printed
from tests.controller.edges.http.fake_core import DOWN, LTE, MEASURED, UP, FakeCore

Captured = pytest.CaptureFixture[str]
KNOWN = replace(LTE, directions=(UP, replace(UP, direction="down", bps=20e6, least_bps=20e6, most_bps=None)))


def test_status_has_a_line_for_each_path_and_direction(api: str, fake_core: FakeCore, printed: Printed) -> None:
    fake_core.snapshot = MEASURED
    told = printed("status")
    up = r"^lte +home +shed +0\.5 % +41\.3 ms +9\.98 Mbit/s \(9\.9 to 10\.1\), one packet and trains, 4 min ago$"
    down = (
        r"^lte +shed +home +0\.5 % +41\.3 ms +not known: nothing was measured within the last hour; the last probe: "
        r"the agent home disconnected during the probe$"
    )
    never = r"^wifi +home +shed +- +- +not measured: `measure` is not written at this uplink$"
    for line in (up, down, never):
        assert re.search(line, told, re.MULTILINE), told


def test_status_hides_air_paths_without_agent_or_measurement(api: str, fake_core: FakeCore, printed: Printed) -> None:
    air = replace(LTE, uplink="phone@air", near="phone", far="home", directions=(UP, DOWN))
    phone = replace(air, why_not="no agent is connected", health=None, directions=(DOWN, DOWN))
    gone = replace(phone, uplink="tablet@air", near="tablet", directions=(UP, DOWN))
    for paths, shown in (((air, gone, phone), {"phone@air", "tablet@air"}), ((gone, phone), {"tablet@air"})):
        fake_core.snapshot = replace(MEASURED, paths=paths)
        assert set(re.findall(r"^\S+@air", printed("status"), re.MULTILINE)) == shown
    fake_core.snapshot = replace(MEASURED, paths=(phone,))
    assert "ROAD" not in printed("status")


def test_measure_prints_results_by_direction_and_method(api: str, fake_core: FakeCore, printed: Printed) -> None:
    fake_core.snapshot = replace(MEASURED, paths=(KNOWN,))
    lines = printed("measure", "lte").splitlines()
    assert lines[:4] == [
        "lte, home to shed: 9.98 Mbit/s (9.9 to 10.1), by one packet and trains",
        "  one packet                    9.97 Mbit/s (9.84 to 10.1)",
        "  trains                        not known: 3 trains of 10 arrived, expected at least 6",
        "  900 packets sent singly, 2 lost, 0 out of order",
    ]
    assert lines[4] == "lte, shed to home: 20 Mbit/s (20 up), by one packet and trains"
    assert fake_core.links == [None] and [way.ended for way in fake_core.snapshot.paths[0].directions] == [4, 4]


def test_measure_with_a_link_rate_calibrates_the_hosts(api: str, fake_core: FakeCore, printed: Printed) -> None:
    fake_core.snapshot = replace(MEASURED, paths=(KNOWN,))
    (path,) = json.loads(printed("measure", "lte", "--site", "shed", "--link", "97.5", "--json"))
    assert fake_core.links == [97_500_000.0]
    assert [way["alpha_ns_per_byte"] for way in path["directions"]] == [1.25, 1.25]
    assert printed("measure", "lte", "--link", "100").count("these hosts need 1.250 ns per byte: stored") == 2


def test_measure_ignores_old_results_when_the_probe_fails(api: str, fake_core: FakeCore, capsys: Captured) -> None:
    failed = replace(UP, error="the agent home disconnected during the probe")
    for one in (LTE, replace(LTE, directions=(failed, replace(failed, direction="down")))):
        fake_core.snapshot = replace(MEASURED, paths=(one,))
        assert main(["measure", "lte"]) == REFUSED
        assert "  incomplete: the agent home disconnected during the probe\n" in capsys.readouterr().out


def test_measure_does_not_wait_for_a_lost_path(api: str, fake_core: FakeCore, capsys: Captured) -> None:
    gone = replace(LTE, why_not="no gateway agent enrolled as shed is connected")
    fake_core.snapshot = replace(MEASURED, paths=(replace(gone, directions=(replace(UP, running=True), DOWN)),))
    assert main(["measure", "lte"]) == REFUSED
    said = "bicast: lte of home can no longer be measured: no gateway agent enrolled as shed"
    assert capsys.readouterr().err.startswith(said)
