"""How much a terminal gets through, by the second: of what one who tells of it has told.

Time is the teller's own, as he counts it from one report to the next: one that comes late makes nothing faster. A
connection counts from where it was first heard of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from controller.policy.flows import Flow, FlowKey, wrong
from controller.reports import MOST_SUBFLOWS

OVER_S = 1.0  # what is taken together
NEARLY = 0.95  # of it: reports may come a little early
PACKET_BYTES, PAYLOAD_BYTES = 1500, 1448  # what caps count, and what of it is acknowledged


@dataclass(frozen=True, slots=True)
class Span:
    """From one report to the next."""

    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """A new one is made with every report."""

    heard_at: float
    spans: tuple[Span, ...] = ()  # the newest first; no more of them than make a second
    known: Mapping[FlowKey, int] = field(default_factory=dict)

    @property
    def bps(self) -> float | None:
        """With headers, as the air has it; None: it was not told of for so long."""
        seconds = sum(span.seconds for span in self.spans)
        if seconds < NEARLY * OVER_S:
            return None
        return 8 * sum(span.bytes for span in self.spans) / seconds * PACKET_BYTES / PAYLOAD_BYTES


def heard(before: Delivered | None, flows: Iterable[Flow], seconds: float, now: float) -> Delivered:
    """`before` is None where nothing was told for long, or somebody else told."""
    told = {flow.key: flow.bytes_sent for flow in islice(flows, MOST_SUBFLOWS) if wrong(flow) is None}
    if before is None or seconds <= 0:
        return Delivered(now, known=told)
    more = sum(max(0, sent - before.known.get(key, sent)) for key, sent in told.items())
    return Delivered(now, _latest((Span(seconds, more), *before.spans)), told)


def _latest(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    total = 0.0
    for number, span in enumerate(spans, 1):
        total += span.seconds
        if total >= NEARLY * OVER_S:
            return spans[:number]
    return spans
