# SPDX-License-Identifier: Apache-2.0
"""Read log lines about refused peers as soon as they appear."""

from __future__ import annotations

import logging
import queue

from tests.controller.edges.agentlink.agent import PATIENCE_S
from tests.controller.edges.agentlink.fake_controller import FakeController

Log = queue.SimpleQueue[logging.LogRecord]


def refused(fake_controller: FakeController, log: Log, reason: str) -> str:
    """Check that one peer was refused, and counted under this reason alone. Return the log line, which names the
    peer.
    """
    line = log.get(timeout=PATIENCE_S).getMessage()
    assert " refused: " in line and "from 127.0.0.1:" in line
    assert {each: number for each, number in fake_controller.agents.refusals().items() if number} == {reason: 1}
    return line
