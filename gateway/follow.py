# SPDX-License-Identifier: Apache-2.0
"""Follow this host: prepare its bridges again whenever its interfaces, addresses or routes change."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

# linux/rtnetlink.h: links, addresses, routes and rules. systemd-networkd removes rules of others when it reconfigures.
GROUPS = 0x1 | 0x10 | 0x40 | 0x80 | 0x100 | 0x400 | 0x40000
QUIET_S = 0.1  # changes come in groups
LATEST_S = 1.0  # although changes go on
AGAIN_S = 10.0  # after a failure, without a change
CHUNK = 1 << 16


def follow(prepare: Callable[[], bool]) -> NoReturn:
    """Call `prepare` now and after each change, for good. It returns whether it succeeded.

    Its own changes are events too: another call then finds nothing to change.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as events:
        events.bind((0, GROUPS))
        while True:
            succeeded = prepare()
            if _changed(events, None if succeeded else AGAIN_S):
                latest = time.monotonic() + LATEST_S
                while time.monotonic() < latest and _changed(events, QUIET_S):
                    pass


def _changed(events: socket.socket, within_s: float | None) -> bool:
    """Return whether something changes within this time; None: wait for good."""
    ready, _, _ = select.select([events], [], [], within_s)
    if ready:
        with suppress(OSError):  # the kernel dropped events
            events.recv(CHUNK)
    return bool(ready)
