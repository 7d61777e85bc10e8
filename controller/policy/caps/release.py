# SPDX-License-Identifier: Apache-2.0
"""The release of an access point's caps while senders without a cap fill its queue.

A window made for an empty queue gets almost nothing in a full one. While caps are released, a window is a share of the
*current* round trip's bandwidth-delay product (windows.py). It grows with the queue, so no capped terminal starves.

Windows that always did so would drain no queue: all terminals together would send at a fixed rate, whatever its length.
So caps return as soon as the terminals deliver the bandwidth by themselves. The decision looks at their sum, which
terminals that join, leave or pause do not move.

    capped ── a queue exists that caps do not explain ────────────────────────────────────► released
       ▲ it has gone, or the terminals deliver FULL_SHARE of the bandwidth                      │ │
       ├────────────────────────────────────────────────────────────────────────────────────────┘ │
       └── larger windows gained nothing in TRIAL_S, or RETRY_S have passed:                      │
           capped for REST_S, or until terminals get less ◄───────────────────────────────────────┘

Slower air looks like an uncapped sender. Only the trial tells them apart.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from controller.policy.caps.capacity import Use

QUEUED_FACTOR, QUEUED_US = 1.25, 2000  # tolerance above the queue that caps explain: smoothed round trips are inexact
QUEUED_S = 1.5  # until the reported deliveries, which lag, are all from a full link
AVERAGED_S = 1.0  # time constant of the averages
JOINED_S = 2.0  # a queue soon after a terminal joined is what it sent before it had a cap
FULL_SHARE = 0.9  # share of the bandwidth; caps return when terminals deliver it
KEPT_S = 5.0  # FULL_SHARE must last this long: deliveries vary as uncapped senders come and go
GIVEN_SHARE = 0.95  # lower limit of each terminal, in equal shares
TRIAL_S, BEFORE_S = 8.0, 5.0  # trial length; deliveries before BEFORE_S are from before larger windows took effect
MORE, LESS = 1.1, 0.8  # factors of deliveries: a trial's gain, and a loss that ends a rest
YIELDS = 1.25  # lower limit, as a factor of the mean delivery: without margin, losses would lower both step by step
REST_S = 60.0  # caps stay for this time after a trial without gain
RETRY_S = 60.0  # after this time released, caps return as a test; it ends if terminals get less


@dataclass(frozen=True, slots=True)
class Release:
    """Immutable state."""

    since: float | None = None  # caps are released; None: they are not
    reason: str | None = None  # None: it is not known yet whether a sender has no cap
    queued_since: float | None = None
    delivered: float | None = None  # share of the bandwidth, averaged; None: no queue exists, or not long enough
    fair: float = 0.0  # the same, counting each terminal up to an equal share
    full_since: float | None = None  # the terminals deliver the bandwidth
    lowest: float = math.inf  # lowest `fair` before larger windows took effect
    queue_us: float = 0.0
    capped_bps: float = 0.0  # share of each terminal if all senders have caps
    share_bps: float = 0.0  # share of each terminal if one sender has no cap
    each_bps: float = 0.0  # mean delivery per terminal
    rests_until: float = -math.inf
    active: int = 0
    joined_at: float = -math.inf
    at: float = 0.0

    @property
    def is_on(self) -> bool:
        return self.since is not None

    @property
    def rests(self) -> bool:
        """Return whether caps are kept because larger windows gained nothing."""
        return self.at < self.rests_until

    @property
    def least_bps(self) -> float:
        """Return the rate of each terminal's lower limit.

        At first it is the terminal's share, because larger windows must yield. Later it follows the deliveries,
        because the bandwidth may be lower.
        """
        if self.since is not None and self.at - self.since < TRIAL_S:
            return GIVEN_SHARE * self.capped_bps
        return min(GIVEN_SHARE * self.share_bps, YIELDS * self.each_bps)

    def after(
        self,
        uses: Collection[Use],
        bandwidth_bps: float,
        active: int,
        explained_us: float,
        now: float,
    ) -> Release:
        """Return the next state. `uses`: capped terminals; `active`: senders; `explained_us`: the caps' own queue."""
        waiting = [_queue_us(one) for one in uses if _queue_us(one) > _most_queue_us(one, explained_us)]
        sending = max(1, min(active, len(uses)))
        share_bps = bandwidth_bps / (sending + 1)
        delivered_bps = sum(one.bps for one in uses)
        fair = sum(min(one.bps, share_bps) for one in uses) / (sending * share_bps)
        joined_at = now if active > self.active else self.joined_at
        seen = replace(self, active=active, joined_at=joined_at)
        seen = seen._with_averages(bool(waiting), delivered_bps / bandwidth_bps, fair, now)
        seen = replace(
            seen,
            queue_us=max(waiting, default=0.0),
            capped_bps=bandwidth_bps / sending,
            share_bps=share_bps,
            each_bps=delivered_bps / sending,
            at=now,
        )
        if not waiting:
            return replace(seen, since=None, reason=None, full_since=None)
        if seen.delivered is not None and seen.delivered >= FULL_SHARE:
            full_since = now if seen.full_since is None else seen.full_since
            if seen.reason is None or now - full_since >= KEPT_S:
                return replace(seen, since=None, reason=None, rests_until=-math.inf)
            return replace(seen, full_since=full_since)
        seen = replace(seen, full_since=None)
        if seen.rests:
            if seen.delivered is None or seen.fair >= LESS * seen.lowest:
                return seen
            seen = replace(seen, rests_until=-math.inf)
        is_settled = seen.delivered is not None or now - seen.joined_at >= JOINED_S
        if seen.since is None:
            if not is_settled:
                return seen
            seen = replace(seen, since=now, lowest=math.inf)
        return seen._released(bandwidth_bps, explained_us, now)

    def _with_averages(self, waits: bool, delivered: float, fair: float, now: float) -> Release:
        """Return the state with averaged deliveries, once a queue has lasted for QUEUED_S."""
        if not waits:
            return replace(self, queued_since=None, delivered=None)
        since = now if self.queued_since is None else self.queued_since
        if now - since < QUEUED_S:
            return replace(self, queued_since=since, delivered=None)
        if self.delivered is None:
            return replace(self, queued_since=since, delivered=delivered, fair=fair)
        newer = -math.expm1(-(now - self.at) / AVERAGED_S)
        return replace(
            self,
            queued_since=since,
            delivered=self.delivered + (delivered - self.delivered) * newer,
            fair=self.fair + (fair - self.fair) * newer,
        )

    def _released(self, bandwidth_bps: float, explained_us: float, now: float) -> Release:
        assert self.since is not None
        if self.delivered is None:
            return self
        if now - self.since < BEFORE_S or self.reason is None:
            reason = self.reason or (
                f"a queue of {self.queue_us / 1000:.0f} ms was measured, of which caps explain "
                f"{explained_us / 1000:.0f} ms, and capped terminals delivered "
                f"{self.delivered * bandwidth_bps / 1e6:.2g} of {bandwidth_bps / 1e6:.4g} Mbit/s: a sender without a "
                "cap must be active"
            )
            return replace(self, reason=reason, lowest=min(self.lowest, self.fair))
        if now - self.since < TRIAL_S:
            return self
        if self.fair < min(MORE * self.lowest, GIVEN_SHARE):
            return replace(self, since=None, reason=None, rests_until=now + REST_S)
        if now - self.since >= RETRY_S:
            return replace(self, since=None, reason=None, rests_until=now + REST_S, lowest=self.fair)
        return replace(self, lowest=0.0)  # larger windows gain


def _queue_us(use: Use) -> float:
    if use.rtt_us is None or use.shortest_us is None:
        return 0.0
    return use.rtt_us - use.shortest_us


def _most_queue_us(use: Use, explained_us: float) -> float:
    return QUEUED_FACTOR * explained_us + (QUEUED_FACTOR - 1) * (use.shortest_us or 0) + QUEUED_US
