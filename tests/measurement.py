# SPDX-License-Identifier: Apache-2.0
"""Measure a failing timed test twice more. The median of the three verdicts decides, and all three figures are printed.

`make measure` loads this plugin. It needs `enable_assertion_pass_hook`, which reports the figures of
passing attempts. Hypothesis draws new examples under it, and keeps those that fail.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

ATTEMPTS = 3

Reports = list[pytest.TestReport]


class Attempt:
    """One run of a test: its reports, and the assertions that held, by line."""

    def __init__(self, reports: Reports, held: dict[int, str]) -> None:
        self.reports = reports
        self._failed = next((each for each in reports if each.failed), None)
        self._held = held

    @property
    def passed(self) -> bool:
        return self._failed is None

    @property
    def line(self) -> int | None:
        """Return the line in the test's own file at which the attempt failed."""
        entries = getattr(getattr(self._failed, "longrepr", None), "reprtraceback", None)
        return next((entry.reprfileloc.lineno for entry in entries.reprentries), None) if entries else None

    def figure(self, line: int | None) -> str:
        """Return the failed comparison on one line, or the comparison at `line` if the attempt passed."""
        if self._failed is None:
            return f"passed: {_one_line(self._held.get(line or 0, 'the assertion that failed before held'))}"
        crash = getattr(self._failed.longrepr, "reprcrash", None)
        return f"failed: {_one_line(crash.message if crash else str(self._failed.longrepr))}"


class Measurement:
    def __init__(self) -> None:
        self._held: dict[int, str] = {}
        self._repeated: list[str] = []

    def pytest_assertion_pass(self, lineno: int, orig: str, expl: str) -> None:
        self._held[lineno] = f"{orig}: {expl}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if item.get_closest_marker("timed") is None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._decided(item, nextitem).reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._repeated:
            terminalreporter.section("measured three times")
            for line in self._repeated:
                terminalreporter.write_line(line)

    def _decided(self, item: pytest.Item, nextitem: pytest.Item | None) -> Attempt:
        attempts = [self._attempt(item, nextitem)]
        if attempts[0].passed:
            return attempts[0]
        while len(attempts) < ATTEMPTS:
            item.session._setupstate.teardown_exact(None)  # shared fixtures are set up again
            attempts.append(self._attempt(item, nextitem))
        passes = sum(each.passed for each in attempts) > ATTEMPTS // 2
        line = attempts[0].line
        verdict = "passed" if passes else "failed"
        self._repeated += [f"{verdict}: {item.nodeid}", *(f"    {each.figure(line)}" for each in attempts)]
        return next(each for each in attempts if each.passed == passes)

    def _attempt(self, item: pytest.Item, nextitem: pytest.Item | None) -> Attempt:
        self._held = {}
        return Attempt(runtestprotocol(item, nextitem=nextitem, log=False), self._held)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Measurement())
    # By default, Hypothesis neither draws nor keeps examples on a machine that looks like a CI's.
    database = DirectoryBasedExampleDatabase(config.rootpath / ".hypothesis" / "examples")
    settings.register_profile("random", deadline=None, derandomize=False, database=database)
    settings.load_profile("random")
