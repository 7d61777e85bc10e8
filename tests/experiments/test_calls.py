"""What a call lost is told by stage, scene and mode, of what was sent while something befell Wi-Fi."""

from __future__ import annotations

from itertools import product

from experiments.calls.measure import Call
from experiments.calls.plan import BAD_S, STAGES
from experiments.calls.report import table
from experiments.once.datagrams import THIN_PPS


def test_each_stage_has_each_scene_in_each_of_its_modes_once() -> None:
    told = [(stage.name, scene.name, mode) for stage in STAGES for scene, mode in product(stage.scenes, stage.modes)]
    assert len(set(told)) == len(told) == 4 + 12 + 12 + 1 + 1


def test_the_table_has_a_row_for_all_calls_of_a_kind() -> None:
    sent = round(2 * THIN_PPS * BAD_S)
    calls = [
        Call("tunnels", "4 % lost", "auto", sent, 12, 0.84, "wifi"),
        Call("tunnels", "4 % lost", "auto", sent, 24, 1.16, "wifi"),
        Call("no agent", "black", "single", sent, 970, None, "wifi"),
    ]
    *_, first, second = table(calls).splitlines()
    assert first == "| tunnels | 4 % lost | auto | 2 | 1.8 %, 2.4 % | 1.0 s, 1.2 s | wifi |"
    assert second == "| no agent | black | single | 1 | 97.0 %, 97.0 % | - | wifi |"
