# SPDX-License-Identifier: Apache-2.0
"""What is told of those who were refused, as soon as it is."""

from __future__ import annotations

import logging
import queue

from tests.controller.edges.agentlink.agent import PATIENCE_S
from tests.controller.edges.agentlink.house import House

Log = queue.SimpleQueue[logging.LogRecord]


def refused(house: House, log: Log, reason: str) -> str:
    """It was refused once, and counted under that reason alone; the log's line, which names the peer."""
    line = log.get(timeout=PATIENCE_S).getMessage()
    assert " refused: " in line and "from 127.0.0.1:" in line
    assert {each: number for each, number in house.agents.refusals().items() if number} == {reason: 1}
    return line
