# SPDX-License-Identifier: Apache-2.0
"""`caps` lists the terminals of each access point, and `status` warns of problems there."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from controller.model.config import CapRule, CapTables
from tests.cli.conftest import Printed
from tests.controller.edges.http.fake_core import AIR, SHARED, FakeCore

Captured = pytest.CaptureFixture[str]


def test_caps_lists_each_terminal_with_cap_enforcer_and_reason(api: str, fake_core: FakeCore, printed: Printed) -> None:
    paper = replace(
        AIR, name="attic", rule=CapRule.PAPER, tables=CapTables.JELLY_BEAN, bandwidth_bps=None, terminals=()
    )
    fake_core.snapshot = replace(SHARED, access_points=(AIR, paper))
    told = printed("caps")
    assert re.search(r"^air +home +ideal +2 +65536 bytes +20 Mbit/s, written in gateway.yaml$", told, re.MULTILINE)
    assert re.search(r"^attic +home +paper \(jb\) +2 .* -$", told, re.MULTILINE)
    held = r"^client +air +yes +2 +x1\.5 +10 +8 +client \(congestion-control\) +ideal: 3 active, 20 Mbit/s x 16\.2 ms"
    assert re.search(held, told, re.MULTILINE)
    assert re.search(r"^tablet +air +yes +2 .* 10 +8 +- +no agent speaks for it, and the gateway's", told, re.MULTILINE)
    assert told.endswith("! tablet: implausible reports ignored: a round trip of 0\n")
    assert json.loads(printed("caps", "--json"))[0]["terminals"][0]["windows"][0]["other_address"] == "203.0.113.5"


def test_status_warns_of_unenforced_caps_and_invalid_reports(api: str, fake_core: FakeCore, printed: Printed) -> None:
    fake_core.snapshot = SHARED
    warnings = [line for line in printed("status").splitlines() if line.startswith("! home: access point air: ")]
    assert [line.removeprefix("! home: access point air: ") for line in warnings] == [
        "caps are not enforced at the port gw-c2: there is no network device gw-c2 here",
        "no agent enforces the cap of tablet: no agent speaks for it, and the gateway's agent home cannot: the kernel "
        "does not take the program",
        "reports about tablet are implausible and ignored, 3 times so far: a round trip of 0",
    ]
