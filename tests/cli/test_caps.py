"""`caps` shows who shares the air, and `status` what needs somebody's attention there."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from cli import OK
from cli.__main__ import main
from controller.features.caps.view import MeasuredView
from controller.model.config import CapRule, CapTables
from tests.controller.edges.http.desk import AIR, SHARED, Desk

Captured = pytest.CaptureFixture[str]


def test_each_terminal_is_shown_with_its_cap_its_holder_and_the_reason(api: str, desk: Desk, capsys: Captured) -> None:
    paper = replace(
        AIR, name="attic", rule=CapRule.PAPER, tables=CapTables.JELLY_BEAN, bandwidth_bps=None, terminals=()
    )
    desk.snapshot = replace(SHARED, access_points=(AIR, paper))
    assert main(["caps"]) == OK
    told = capsys.readouterr().out
    assert re.search(r"^air +home +ideal +2 +65536 bytes +20 Mbit/s, written in gateway.yaml$", told, re.MULTILINE)
    assert re.search(r"^attic +home +paper \(jb\) +2 .* -$", told, re.MULTILINE)
    held = r"^client +air +yes +2 +x1\.5 +10 +8 +client \(congestion-control\) +ideal: 3 active, 20 Mbit/s x 16\.2 ms"
    assert re.search(held, told, re.MULTILINE)
    assert re.search(r"^tablet +air +yes +2 .* 10 +8 +- +no agent speaks for it, and the gateway's", told, re.MULTILINE)
    assert told.endswith("! tablet: not believed: a round trip of 0\n")
    assert main(["caps", "--json"]) == OK
    assert json.loads(capsys.readouterr().out)[0]["terminals"][0]["windows"][0]["other_address"] == "203.0.113.5"


def test_a_bandwidth_that_was_measured_is_shown_with_its_interval_and_its_age(
    api: str, desk: Desk, capsys: Captured
) -> None:
    def shown(bandwidth_bps: int | None, measured: MeasuredView | None) -> tuple[str, str]:
        place = replace(AIR, bandwidth_bps=bandwidth_bps, measured=measured)
        desk.snapshot = replace(
            SHARED, access_points=(place, replace(AIR, name="still", rule=CapRule.OFF, missing=(), terminals=()))
        )
        said = []
        for verb, block in (("caps", " +65536 bytes"), ("status", "")):
            assert main([verb]) == OK
            told = capsys.readouterr().out
            found = re.search(rf"^air +home +ideal +2{block} +(.*)$", told, re.MULTILINE)
            assert found is not None and (verb == "caps" or "still" not in told)
            said.append(found[1])
        caps, status = said
        return caps, status

    assert set(shown(18_710_000, MeasuredView(17.9e6, 20.58e6, 4.2))) == {
        "18.71 Mbit/s (17.9 to 20.6), delivered, 4 s ago"
    }
    assert set(shown(18_000_000, MeasuredView(18e6, None, 61.0))) == {"18 Mbit/s (18 up), delivered, 1 min ago"}
    assert set(shown(12_000_000, MeasuredView(11e6, 13e6, 4.2, "trains"))) == {"12 Mbit/s (11 to 13), trains, 4 s ago"}
    assert set(shown(None, None)) == {"not known yet"}
    assert set(shown(20_000_000, None)) == {"20 Mbit/s, written in gateway.yaml"}


def test_that_caps_are_released_is_said_with_the_reason(api: str, desk: Desk, capsys: Captured) -> None:
    desk.snapshot = replace(SHARED, access_points=(replace(AIR, released="a queue of 310 ms stood there"),))
    for verb in ("caps", "status"):
        assert main([verb]) == OK
        assert "air: caps are released: a queue of 310 ms stood there\n" in capsys.readouterr().out


def test_without_an_access_point_it_says_where_one_is_written(api: str, desk: Desk, capsys: Captured) -> None:
    assert main(["caps"]) == OK
    assert "docs/explanation/caps.md" in capsys.readouterr().out


def test_status_warns_of_what_is_not_held_and_of_what_is_not_believed(api: str, desk: Desk, capsys: Captured) -> None:
    desk.snapshot = SHARED
    assert main(["status"]) == OK
    warnings = [line for line in capsys.readouterr().out.splitlines() if line.startswith("! home: access point air: ")]
    assert [line.removeprefix("! home: access point air: ") for line in warnings] == [
        "nothing is held at the port gw-c2: there is no network device gw-c2 here",
        "nobody holds tablet to its part: no agent speaks for it, and the gateway's agent home cannot: the kernel does "
        "not take the program",
        "what is told of tablet is not believed, 3 times until now: a round trip of 0",
    ]
