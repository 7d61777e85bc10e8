# SPDX-License-Identifier: Apache-2.0
"""Change the mode 100 times under 2,000 datagrams a second: is one lost, and how long until copies end?

request            answer
  │   transition      │
  ├──────────┐        │               A datagram is in the transition to `single` if it was sent after the
──┴──────────┴────────┴──────► time   request and still arrived twice. The transition lasts from the request
  bicast … last copy                  to the sending of the last such datagram.

A datagram counts when it was sent, not when it was due. A duplicate after LATE_S is not part of a transition.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.bench.laboratory import Lab, lab
from lab.processes.openflow_spy import FLOW_MOD, GROUP_MOD
from lab.results.figures import Figure, exactly, figure, middle, percentile, worst
from lab.traffic.numbered import Counted, numbered
from topologies.paper import SERVER, PaperTopo

RATE_PPS = 2000
CHANGES, EVERY_S = 100, 0.15
LATE_S = 0.1
ROUNDS = 3
COPIES = {"single": 1, "bicast": 2}


@dataclass(frozen=True, slots=True)
class ModeChange:
    mode: str
    requested_at: float  # time.monotonic()
    answered: float


@dataclass(frozen=True, slots=True)
class Round:
    changes: Sequence[ModeChange]
    counted: Counted
    seconds: float
    flow_mods: int
    group_mods: int

    def transitions_s(self, mode: str) -> list[float]:
        """Return for each change the time until the last datagram that was treated by the old mode."""
        last: dict[int, float] = {}
        for at, sent_at in self._otherwise(mode):
            last[at] = max(last.get(at, 0.0), sent_at - self.changes[at].requested_at)
        return [last.get(at, 0.0) for at, change in enumerate(self.changes) if change.mode == mode]

    def late(self, mode: str) -> int:
        return sum(sent_at - self.changes[at].requested_at > LATE_S for at, sent_at in self._otherwise(mode))

    def _otherwise(self, mode: str) -> Iterator[tuple[int, float]]:
        """Yield datagrams without the new mode's number of copies: the change's index, and the time of sending."""
        begins = [change.requested_at for change in self.changes]
        for number, count in self.counted.copies.items():
            at = bisect_right(begins, self.counted.sent_at[number]) - 1
            if at >= 0 and self.changes[at].mode == mode and count != COPIES[mode]:
                yield at, self.counted.sent_at[number]


def one_round(stage: Lab, changes_asked: int = CHANGES) -> Round:
    client, server = stage.net.machine("client"), stage.net.machine("server")
    stage.controller.client.set_mode("client", "bicast")
    with numbered(client, server, SERVER, RATE_PPS) as stream:
        began = time.monotonic()
        changes = []
        for number in range(changes_asked):
            time.sleep(max(0.0, began + (number + 1) * EVERY_S - time.monotonic()))
            mode = "bicast" if number % 2 else "single"
            asked = time.monotonic()
            stage.controller.client.set_mode("client", mode)
            changes.append(ModeChange(mode, asked, time.monotonic()))
        time.sleep(EVERY_S)
        seconds = time.monotonic() - began
        counted = stream.stop()
    spy = stage.spy
    return Round(changes, counted, seconds, spy.count(FLOW_MOD, since=began), spy.count(GROUP_MOD, since=began))


def measure() -> Iterator[Figure]:
    with lab(PaperTopo(shaped=False), ("bicast: [tcp]", "bicast: [tcp, udp]")) as stage:
        rounds = [one_round(stage) for _ in range(ROUNDS)]
    counted = [each.counted for each in rounds]
    rates = [each.sent / one.seconds for each, one in zip(counted, rounds, strict=True)]
    to_single_ms = [seconds * 1000 for each in rounds for seconds in each.transitions_s("single")]
    answers_ms = [(change.answered - change.requested_at) * 1000 for each in rounds for change in each.changes]
    group_mods = [each.group_mods / CHANGES for each in rounds]
    late = f"  sent in single later than {LATE_S * 1000:g} ms after the question and seen more than once"
    yield worst(
        f"{CHANGES} changes of mode under {RATE_PPS} datagrams/s: datagrams lost",
        [float(len(each.lost)) for each in counted],
        "datagrams",
        exactly(0),
    )
    yield worst(late, [float(each.late("single")) for each in rounds], "datagrams", exactly(0))
    thrice = [float(sum(count > 2 for count in each.copies.values())) for each in counted]
    yield worst("  seen more than twice", thrice, "datagrams", exactly(0))
    yield worst("  transition to single, the longest", to_single_ms, "ms")
    yield figure("  transition to single, p99", percentile(to_single_ms, 99), to_single_ms, "ms")
    yield middle("  transition to single, median", to_single_ms, "ms")
    to_bicast_ms = [seconds * 1000 for each in rounds for seconds in each.transitions_s("bicast")]
    yield middle("  transition to bicast, median", to_bicast_ms, "ms")
    yield middle("  the API's answer, median", answers_ms, "ms")
    yield worst("  flow modifications sent", [float(each.flow_mods) for each in rounds], "messages", exactly(0))
    yield middle("  group modifications sent for one change", group_mods, "messages")
    yield middle("  datagrams sent", rates, "1/s")
    yield worst("  the sender's own lateness", [each.lateness_s * 1000 for each in counted], "ms")
