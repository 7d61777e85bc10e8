# SPDX-License-Identifier: Apache-2.0
"""Armed failover: the rule by which an agent leaves a stalled active path before the controller could.

A rule is armed while an agent can move the terminal, no person has chosen an uplink, and another path is not dead. It
expires if the controller ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from zlib import crc32

from controller.policy.paths.health import UplinkHealth, UplinkPath
from controller.policy.paths.uplink_choice import RANK
from controller.policy.paths.uplinks import Paths
from controller.protocol.orders import Arm

LEASE_S = 30.0  # an armed rule ends after this time
RENEW_S = 12.0  # two lost renewals leave the rule armed
NO_PROGRESS_MS = 150  # shortest time without progress that fires a rule
NO_PROGRESS_MANY_MS = 100  # the same with many segments in flight
NO_PROGRESS_COPIED_MS = 400  # copies of lost packets may wait in a slower uplink's queue
# A lossy path sometimes loses a retransmission too. TCP repeats it after 200 ms, then after 400 ms.
NO_PROGRESS_LOSING_MS = 1000
# A lost SYN makes the srtt of an idle path seconds long until data flow. Longer limits are left to the agent, which
# waits for the kernel's srtt + 4 rttvar of that moment.
NO_PROGRESS_MOST_MS = 1000
STEP_MS = 25  # limits are rounded up, so small changes of the round trip need no new order


@dataclass(frozen=True, slots=True)
class ArmedFailover:
    terminal: str
    watched: str  # the active uplink; `fallback` is an uplink too
    fallback: str
    no_progress_ms: int
    no_progress_many_ms: int

    @property
    def limits(self) -> str:
        if self.no_progress_many_ms == self.no_progress_ms:
            return f"armed for {self.no_progress_ms} ms"
        return f"armed for {self.no_progress_ms} ms, or {self.no_progress_many_ms} ms with many segments in flight"

    def outdates(self, armed: ArmedFailover) -> bool:
        """Return whether this rule must replace `armed` before the next renewal.

        A slightly shorter limit can wait. A limit of half or less cannot: the first round trip of a path may come from
        a lost handshake, and be many times too long.
        """
        same = (armed.watched, armed.fallback) == (self.watched, self.fallback)
        return not same or not armed.no_progress_ms / 2 < self.no_progress_ms <= armed.no_progress_ms

    @property
    def renewed_after_s(self) -> float:
        """Return the renewal interval, spread by terminal: after a restart, renewals do not come at once."""
        return RENEW_S * (2 + crc32(self.terminal.encode()) / 2**32) / 3

    def order(self, where: Paths) -> Arm:
        watched, fallback = where[self.watched], where[self.fallback]
        patience = self.no_progress_ms, self.no_progress_many_ms
        return Arm(self.terminal, watched, fallback, *patience, int(LEASE_S * 1000))


def failover(
    terminal: str, active: str, where: Paths, paths: Mapping[str, UplinkPath], srtt_us: int, copied: bool
) -> ArmedFailover | None:
    """Return the rule to arm for a terminal, or None if there is no other usable path.

    `paths` are in order of preference, and `where` has the terminal's addresses on them. `srtt_us` is the active
    path's. `copied`: the agent's end sends over every uplink.
    """
    others = [name for name in paths if name != active and name in where]
    alive = [name for name in others if paths[name].health is not UplinkHealth.DEAD]
    if active not in where or active not in paths or not alive:
        return None
    fallback = min(alive, key=lambda name: RANK[paths[name].health])  # the first of equals
    if copied or paths[active].loses:
        patience_ms = max(NO_PROGRESS_COPIED_MS if copied else NO_PROGRESS_LOSING_MS, _patience_ms(srtt_us))
        return ArmedFailover(terminal, active, fallback, patience_ms, patience_ms)
    return ArmedFailover(terminal, active, fallback, _patience_ms(srtt_us), _patience_with_many_ms(srtt_us))


def _patience_ms(srtt_us: int) -> int:
    """Return the limit: TCP probes a lost tail after two round trips; the answer takes one more (RFC 8985, 7.2)."""
    return _stepped(max(NO_PROGRESS_MS, 3 * srtt_us / 1000 + 50))


def _patience_with_many_ms(srtt_us: int) -> int:
    """Return the shorter limit: with many segments in flight, acknowledgements keep coming even under loss."""
    return _stepped(max(NO_PROGRESS_MANY_MS, 1.5 * srtt_us / 1000 + 50))


def _stepped(needed_ms: float) -> int:
    return STEP_MS * ceil(min(needed_ms, NO_PROGRESS_MOST_MS) / STEP_MS)
