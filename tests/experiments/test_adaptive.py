# SPDX-License-Identifier: Apache-2.0
"""Mode auto is compared with copies always and never, phase by phase, and the script runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.adaptive import CAMPAIGN, measure
from experiments.adaptive.observations import BudgetRun, Carried, Change, ScriptRun
from experiments.adaptive.plan import ADAPTIVE, ALWAYS, NEVER, SCRIPT, Plan, Task
from experiments.adaptive.report import figures
from lab.results.figures import Figure
from lab.traffic.streaming import Streamed
from tests.experiments.reports import reported

PHASE_S = 10.0
BEGAN = 100.0
MOMENTS = [BEGAN + PHASE_S * number for number in range(len(SCRIPT) + 1)]
LOSSY, BURSTY, DEAD, HEALED = MOMENTS[1:5]
CAME_BPS = 4e6
LATE = "on wifi 90 of 900 packets left more than 15 ms late, the latest by 90.0 ms"


def a_run(
    mode: str,
    *changed: Change,
    number: int = 1,
    came: tuple[float, ...] = (1,) * len(SCRIPT),
    copied: tuple[float, ...] = (1,) * len(SCRIPT),
    stalled: str = "",
) -> ScriptRun:
    """Return a run. `came` and `copied` are shares of 4 Mbit/s, by phase."""
    moments, come, sizes = [BEGAN], [0.0], [0]
    for since, part, copy in zip(MOMENTS, came, copied, strict=False):
        moments.append(since + PHASE_S)
        come.append(come[-1] + part * CAME_BPS / 8 * PHASE_S)
        sizes.append(sizes[-1] + round(copy * CAME_BPS / 8 * PHASE_S))
    streamed, carried = Streamed(moments, come, True), Carried(moments, sizes)
    return ScriptRun(Task(mode, number, PHASE_S), MOMENTS, streamed, carried, changed, stalled)


def ended(at: float) -> Change:
    return Change(at, False, "wifi: clean")


def begun(at: float) -> Change:
    return Change(at, True, "wifi: 5 % lost")


KNOWN = ended(BEGAN - 5)
AS_PROMISED = (KNOWN, begun(LOSSY + 0.8), ended(HEALED + 8))
BAD_ALONE = (0, 0.95, 1, 1, 0.9)


def judged(*seen: ScriptRun | BudgetRun) -> dict[str, Figure]:
    return {one.what.strip(): one for one in figures(seen)}


def test_a_bad_phase_without_copies_breaks_the_promise() -> None:
    run = a_run(ADAPTIVE, KNOWN, begun(BURSTY + 0.5))
    assert run.is_to_decide(run.parts[1]) and run.decided_s(run.parts[1]) is None
    told = judged(run, a_run(ALWAYS))
    missed = told["bad phases that had no copies to their end"]
    assert (missed.value, missed.n, missed.met) == (1, 2, False)
    assert told["copies begin, from a bad phase's beginning on"].n == 1


def test_a_good_run_meets_all_promises() -> None:
    told = judged(
        a_run(ADAPTIVE, *AS_PROMISED, copied=BAD_ALONE), a_run(ALWAYS), a_run(NEVER, came=(1, 0.5, 0.1, 0, 1))
    )
    promised = {what: one for what, one in told.items() if one.promise}
    assert all(one.met for one in promised.values()), promised
    assert promised["copies begin, from a bad phase's beginning on"].value == pytest.approx(0.8)
    assert promised["adaptive, of what always copies in the bad phases"].value == pytest.approx(3.85 / 3)
    assert told["adaptive saves, of what always copies"].value == pytest.approx(100 * (1 - 3.85 / 5))


def test_low_goodput_in_one_phase_breaks_the_promise() -> None:
    came = tuple(0.96 if each == 2 else 1.0 for each in range(len(SCRIPT)))
    good = [a_run(mode, number=each) for mode in (ADAPTIVE, ALWAYS) for each in (1, 2)]
    short = [run for run in good if run.task != good[1].task] + [a_run(ADAPTIVE, number=2, came=came)]
    verdicts = [one.met for one in figures(short) if one.what.strip().startswith("adaptive, of always")]
    assert verdicts == [each != 2 for each in range(len(SCRIPT))]


def under(budget_bytes: int, *sizes: int) -> BudgetRun:
    moments = [BEGAN + number for number in range(len(sizes))]
    streamed = Streamed(moments, [5e6 * number for number in range(len(sizes))], True)
    return BudgetRun(budget_bytes, BEGAN, Carried(moments, sizes), streamed, moments[-1], "lte: used up until 0:00", "")


def test_too_many_copies_changes_or_bytes_break_the_promise() -> None:
    kept = judged(a_run(ADAPTIVE, *AS_PROMISED, copied=(0.1, 1, 1, 1, 1)), a_run(ALWAYS))
    assert kept["adaptive, of what always copies in the bad phases"].met is False
    flapping = judged(a_run(ADAPTIVE, *AS_PROMISED, ended(DEAD + 1), begun(DEAD + 2)))["changes in a phase"]
    assert (flapping.value, flapping.met) == (2, False)
    what = "a download under a budget: copies, as LTE's far end counts"
    assert judged(under(1_000_000, 90, 700_000, 1_000_000))[what].met is True
    assert judged(under(1_000_000, 90, 700_000, 1_000_001))[what].met is False


@pytest.mark.timed
def test_mode_always_keeps_goodput_over_a_dead_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "STEADY_S", 0.2)
    run = measure.run_script(Task(ALWAYS, 1, 0.5), tmp_path)
    assert run.streamed.whole
    assert [part.until - part.since for part in run.parts] == pytest.approx([0.5] * len(SCRIPT), abs=0.5)
    assert run.bps(run.parts[3]) > CAME_BPS / 4
    assert run.bad_lte_bytes > 1.5 * CAME_BPS / 8 / 2


def test_the_report_has_each_phase_of_runs_that_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = [under(1_000_000, 0, 900_000), a_run(ADAPTIVE, *AS_PROMISED), a_run(ALWAYS), a_run(NEVER)]
    late = a_run(ADAPTIVE, number=2, stalled=LATE)
    rows = reported(CAMPAIGN, Plan("some", 1, PHASE_S), good, [late], tmp_path, capsys)
    assert len(rows) == 1 + 3 * len(SCRIPT)
