"""What is said of peers that are no switches: to whoever reads the log, and without filling it."""

from __future__ import annotations

import logging
import time
from typing import Any

from controller.model import Endpoint

log = logging.getLogger(__name__)

QUIET_S = 600.0  # one line a peer in this time
REMEMBERED = 1024  # peers


class Complaints:
    """One line in the log for one peer, however often it comes back."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def about(self, who: str, address: str, reason: str) -> None:
        now = time.monotonic()
        if now - self._last.get(who, -QUIET_S) < QUIET_S:
            return
        if len(self._last) >= REMEMBERED:
            self._last.clear()
        self._last[who] = now
        log.warning("OpenFlow peer %s: %s; connection closed, and not told again for %g s", address, reason, QUIET_S)


def peer_of(address: Any) -> str:
    host, port = address[:2]
    return str(Endpoint(host, port))
