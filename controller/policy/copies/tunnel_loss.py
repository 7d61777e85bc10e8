# SPDX-License-Identifier: Apache-2.0
"""The loss of a tunnel's own packets, by the counters of its port at both sites.

The two switches are never read at the same moment. So some missing packets are under way, or passed between the two
readings. Lost packets add up over many readings; the others come in a burst and go again. So the two largest rises and
the largest fall do not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from controller.policy.copies.adaptive import is_losing
from controller.policy.copies.tallies import Evidence, LossCounts, Source
from controller.program.program import PacketCounters

HISTORY_S = 30.0  # long enough to prove a loss of 4 % in a call
RISES = 2  # a burst can begin before a reading and end after it
SIZE_FACTOR = 2.0  # by which sizes of missing packets may differ: merged ones lack headers only, MTU probes are long


@dataclass(frozen=True, slots=True)
class TunnelReading:
    """The counters of both ends for one direction of a tunnel."""

    at: float
    sent: PacketCounters
    received: PacketCounters

    @property
    def missing(self) -> PacketCounters:
        return PacketCounters(self.sent.packets - self.received.packets, self.sent.bytes - self.received.bytes)


History = tuple[TunnelReading, ...]


def extended(history: History, reading: TunnelReading) -> History:
    """Return the history with this reading. A counter that restarts clears it."""
    if history and not _continues(history[-1], reading):
        return (reading,)
    return (*(each for each in history if reading.at - each.at <= HISTORY_S), reading)


def certain_loss(history: History) -> Evidence | None:
    """Return the loss over the longest time in which it certainly is worth copies, or None."""
    missing = [each.missing.packets for each in history]
    rises = [after - before for before, after in pairwise(missing)]
    largest_fall = -min(rises, default=0)
    for at, first in enumerate(history[:-1]):
        bursts = sum(sorted(rises[at:])[-RISES:]) + max(0, largest_fall)
        lost = missing[-1] - missing[at] - bursts
        counts = LossCounts(history[-1].sent.packets - first.sent.packets, lost)
        if is_losing(counts) and _is_like_sent(first, history[-1]):
            return Evidence(Source.TUNNEL, history[-1].at - first.at, counts)
    return None


def _continues(before: TunnelReading, after: TunnelReading) -> bool:
    grew = before.sent.packets <= after.sent.packets and before.received.packets <= after.received.packets
    return grew and before.at < after.at


def _is_like_sent(first: TunnelReading, last: TunnelReading) -> bool:
    """Return whether missing packets are about as long as sent ones."""
    packets, size = last.sent.packets - first.sent.packets, last.sent.bytes - first.sent.bytes
    missing = last.missing.packets - first.missing.packets
    missing_size = last.missing.bytes - first.missing.bytes
    return size < SIZE_FACTOR * missing_size * packets / missing < SIZE_FACTOR**2 * size
