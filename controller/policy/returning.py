"""An uplink that brings nothing back: what is sent by it goes, or does not, and nothing comes.

Two signs together. Its port has received no packet at all while packets were sent by it; and its next hop, which has
answered before, is asked for each second and answers no more. One sign alone may be a terminal that only sends, or a
router that does not care to answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

UNANSWERED = 3  # questions, a second apart
LASTS_S = 2.0  # between the readings that are compared
LEAST_SENT = 10  # packets, between two readings: more than the questions themselves


@dataclass(frozen=True, slots=True)
class Counts:
    """Packets of one port, as its switch counts up."""

    received: int
    sent: int
    at: float  # when they were read


@dataclass(frozen=True, slots=True)
class Return:
    """One uplink; a new one is made with everything that is seen of it."""

    has_answered: bool = False  # its next hop, since the switch connected
    unanswered: int = 0  # questions since it last did
    first: Counts | None = None  # the first reading since then
    dead: str | None = None  # why it is taken to be

    @property
    def answers(self) -> bool:
        return self.has_answered and self.unanswered <= 1

    @property
    def suspect(self) -> bool:
        """Its port is to be read, and soon."""
        return self.has_answered and self.unanswered > 1


def asked(uplink: Return) -> Return:
    return replace(uplink, unanswered=uplink.unanswered + 1)


def answered(uplink: Return) -> Return:
    return Return(has_answered=True)


def counted(uplink: Return, counts: Counts) -> Return:
    """Its port was read."""
    if not uplink.suspect:
        return replace(uplink, first=None)
    first = uplink.first
    if first is None or counts.received != first.received or counts.sent < first.sent:
        return replace(uplink, first=counts, dead=None)
    sent = counts.sent - first.sent
    lasted_s = counts.at - first.at
    if uplink.unanswered < UNANSWERED or lasted_s < LASTS_S or sent < LEAST_SENT + uplink.unanswered:
        return uplink
    because = (
        f"it brings nothing back: {sent} packets were sent by it in {lasted_s:.0f} s and none came, and its next hop "
        f"has not answered {uplink.unanswered} questions"
    )
    return replace(uplink, dead=uplink.dead or because)
