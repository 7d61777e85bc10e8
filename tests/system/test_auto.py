# SPDX-License-Identifier: Apache-2.0
"""Mode auto copies a real sender's packets a second after its link begins to lose, and `why` shows it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main
from experiments.calls.measure import carry_out
from experiments.calls.plan import Scene, StagePlan
from experiments.laboratories.two_paths import Laboratory, laboratory
from lab.processes.agents import SETTINGS, TERMINAL, agent
from lab.processes.controller import API, LOOK_EVERY_S
from lab.traffic.streaming import streaming
from tests.system.evidence import SLOWNESS, until
from topologies.paper import SERVER

COUNTED_WITHIN_S = 6.0  # 15 % of a call, with counters that are read each second
METERED_TUNNEL = StagePlan(
    "a tunnel with a budget; one path at first",
    ("auto",),
    (Scene("15 % lost", 15.0, 15.0),),
    with_agent=True,
    metered=True,
    tunnelled=True,
)
CAMERA = ("4000000", "cubic")
PROMISED_S = 1.0
WITHIN_S = PROMISED_S + 1.5 * SLOWNESS  # allows for a report in flight and a busy machine


@pytest.fixture
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """Yield a lab on one path, as decided by an earlier controller in the state file."""
    with laboratory(tmp_path_factory.mktemp("logs"), SETTINGS) as raised:
        raised.controller.client.set_mode(TERMINAL, "auto")
        raised.controller.stop()
        file = raised.controller.file.parent / "state.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"copies": {TERMINAL: False}}))
        raised.controller.start()
        raised.controller.await_steady()
        yield raised


def acting(lab: Laboratory) -> str:
    return str(lab.controller.client.get("terminals", TERMINAL)["acting"])


def newest(lab: Laboratory) -> dict[str, Any]:
    return dict(lab.controller.client.get("terminals", TERMINAL, "decisions")["decisions"][0])


@pytest.mark.timed
def test_auto_copies_soon_after_a_link_begins_to_lose(
    lab: Laboratory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        agent(lab.controller, lab.client, TERMINAL, "terminal") as speaker,
        streaming(lab.server, lab.client, SERVER, upload=True, pace=CAMERA) as stream,
    ):
        stream.await_flowing()
        speaker.await_seeing()
        assert acting(lab) == "single"
        began, by_lte = time.time(), lab.net.uplink("lte").counters()[0].out_bytes
        lab.net.uplink("wifi").forward.set(loss_percent=8.0)
        while acting(lab) == "single" and time.time() - began < WITHIN_S:
            time.sleep(LOOK_EVERY_S)  # the API has no event to wait for
        decision = newest(lab)
        assert decision["copies"] and decision["at"] - began <= WITHIN_S
        assert "lost" in decision["reason"] and "as senders report" in decision["reason"]
        lte = lab.net.uplink("lte")
        until(lambda: lte.counters()[0].out_bytes - by_lte > 200_000, "copies ride LTE")
        assert stream.finish().whole
    monkeypatch.setenv("BICAST_API", API)
    assert main(["why", TERMINAL]) == 0
    told = capsys.readouterr().out
    assert "it is in mode auto, with copies since" in told and "policies: copies begin\n    because wifi: " in told


@pytest.mark.timed
@pytest.mark.slow
def test_auto_copies_a_call_when_a_metered_tunnel_loses(tmp_path: Path) -> None:
    (call,) = carry_out((METERED_TUNNEL,), tmp_path, 1)
    assert call.copies_after_s is not None and call.copies_after_s <= COUNTED_WITHIN_S + 1.5 * SLOWNESS, call
