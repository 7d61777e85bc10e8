# SPDX-License-Identifier: Apache-2.0
"""Print a row per stage, scene and mode."""

from __future__ import annotations

from statistics import median

from experiments.calls.measure import Call


def table(calls: list[Call]) -> str:
    head = (
        "| stage | scene | mode | n | lost (of all, worst) | copies after (median, worst) | at the end on |",
        "|---|---|---|---|---|---|---|",
    )
    kinds: dict[tuple[str, str, str], list[Call]] = {}
    for one in calls:
        kinds.setdefault((one.stage, one.scene, one.mode), []).append(one)
    return "\n".join((*head, *(_row(each) for each in kinds.values())))


def _row(calls: list[Call]) -> str:
    one, worst = calls[0], max(call.lost_percent for call in calls)
    lost = f"{100 * sum(call.lost for call in calls) / sum(call.sent for call in calls):.1f} %, {worst:.1f} %"
    after = [call.copies_after_s for call in calls if call.copies_after_s is not None]
    soon = f"{median(after):.1f} s, {max(after):.1f} s" if len(after) == len(calls) else "-"
    ends = ", ".join(sorted({call.active for call in calls}))
    return f"| {one.stage} | {one.scene} | {one.mode} | {len(calls)} | {lost} | {soon} | {ends} |"
