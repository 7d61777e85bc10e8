# SPDX-License-Identifier: Apache-2.0
"""Run a campaign: an experiment of many runs.

A run that the machine stalled does not count.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from lab.results import RESULTS, provenance
from lab.results.figures import Figure, keep, table
from lab.stage import isolate
from lab.stage.failure import ExperimentFailed


class Planned(Protocol):
    @property
    def name(self) -> str: ...  # file stem


class MeasuredRun(Protocol):
    @property
    def stalled(self) -> str: ...  # what the machine delayed, so that the run does not count; "": nothing


P = TypeVar("P", bound=Planned)
R = TypeVar("R", bound=MeasuredRun)


@dataclass(frozen=True, slots=True)
class Campaign(Generic[P, R]):
    name: str
    carry_out: Callable[[P, Path], Iterable[R]]
    figures: Callable[[Sequence[R]], Iterable[Figure]]
    rows: str  # a word for its csv rows
    header: Sequence[str]  # without where a row comes from
    rows_of: Callable[[R], Iterable[Sequence[object]]]
    draw: Callable[[Sequence[R], Path], Path]
    tell: Callable[[Sequence[R]], str] | None = None  # printed before the figures
    sentence: Callable[[P, R], str] = lambda _plan, one: str(one)  # printed after a run

    @property
    def directory(self) -> Path:
        return RESULTS / self.name

    def run(self, plan: P, as_json: bool) -> int:
        isolate.enter()
        runs: list[R] = []
        try:
            for each in self.measure(plan, self.directory):
                runs.append(each)
        finally:  # also after Ctrl-C
            if runs:
                self.present(plan, runs, self.directory, as_json)
        return 0

    def bench(self, plan: P) -> Iterator[Figure]:
        runs = list(self.measure(plan, self.directory))
        file = self.directory / f"bench-{self.rows}.csv"
        self.keep_rows(runs, file)
        print(f"bench: all {self.rows} are in {file}", file=sys.stderr, flush=True)
        yield from self.figures(runs)

    def measure(self, plan: P, directory: Path) -> Iterator[R]:
        for each in self.carry_out(plan, directory):
            rejected = f"; NOT COUNTED, the machine stalled: {each.stalled}" if each.stalled else ""
            print(f"{self.sentence(plan, each)}{rejected}", file=sys.stderr, flush=True)
            yield each

    def present(self, plan: P, runs: Sequence[R], directory: Path, as_json: bool) -> None:
        found = list(self.figures(runs))
        if not found:
            raise ExperimentFailed(
                "no run counts: nothing was measured, or the machine stalled in every run; try again on an idle machine"
            )
        keep(found, directory, plan.name)
        rows = directory / f"{plan.name}-{self.rows}.csv"
        self.keep_rows(runs, rows)
        picture = self.draw(runs, directory / f"{plan.name}.png")
        rejected = sum(bool(each.stalled) for each in runs)
        if as_json:
            document = {"experiment": self.name, "figures": [asdict(each) for each in found], "runs_left_out": rejected}
            print(json.dumps(document | {"csv": str(rows), "plots": [str(picture)]}, indent=2))
            return
        if self.tell is not None:
            print(f"{self.tell(runs)}\n")
        print(table(found))
        print(f"\nRuns that do not count, because the machine stalled: {rejected} of {len(runs)}.")
        print(f"All {self.rows}: {rows}\nPlot: {picture}")

    def keep_rows(self, runs: Iterable[R], file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", newline="", encoding="utf-8") as kept:
            writer = csv.writer(kept, lineterminator="\n")
            writer.writerow((*self.header, *provenance.HEADER))
            for run in runs:
                if not run.stalled:
                    writer.writerows((*row, *provenance.provenance()) for row in self.rows_of(run))
