"""Every collected test reports: a run in which one does not fails.

pytest-xdist keeps a worker's tests by node id: of several tests with one id it runs the first alone, and says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

MOST_SHOWN = 10


class Counted:
    """A plugin of pytest, for the process that gathers the reports."""

    def __init__(self) -> None:
        self._collected: Counter[str] = Counter()
        self._reported: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected |= Counter(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        self._collected |= Counter(ids)

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

    def _silent(self) -> Counter[str]:
        return self._collected - Counter(self._reported)
