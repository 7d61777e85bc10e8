# SPDX-License-Identifier: Apache-2.0
"""A run fails if a collected test neither reports nor is left to `make measure`.

pytest-xdist keeps a worker's tests by node id. It silently runs only the first of several tests with one id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

MOST_SHOWN = 10
LEFT = "tests_left"  # key of a worker's output
OF_MAKE_TEST = "not timed and not slow"


class ReportCheck:
    """A plugin of pytest, for the process that gathers the reports."""

    def __init__(self) -> None:
        self._collected: Counter[str] = Counter()
        self._reported: set[str] = set()
        self._left: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected |= Counter(item.nodeid for item in session.items)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._left.update(item.nodeid for item in items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        self._collected |= Counter(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self._left.update(getattr(node, "workeroutput", {}).get(LEFT, ()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reported.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and self._silent() and not session.config.option.collectonly:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        silent = self._silent()
        if silent and not config.option.collectonly:
            total = self._collected.total()
            terminalreporter.section(f"{silent.total()} of {total} collected tests did not report")
            for name in sorted(silent)[:MOST_SHOWN]:
                terminalreporter.write_line(f"{name}: {self._collected[name]} collected with this id")
        if config.option.markexpr == OF_MAKE_TEST:
            terminalreporter.write_line(f"{len(self._left)} timed or slow tests are left to `make measure`")

    def _silent(self) -> Counter[str]:
        return self._collected - Counter(self._reported)


class DeselectionReport:
    """A plugin of pytest, for a worker: it reports the tests that the worker leaves out."""

    def __init__(self) -> None:
        self._left: list[str] = []

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._left += [item.nodeid for item in items]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        session.config.workeroutput[LEFT] = self._left  # type: ignore[attr-defined]  # xdist's
