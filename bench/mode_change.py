"""100 changes of mode under 2,000 datagrams a second: is one lost, and how long until copies end?

asked              answered
  │   transition      │
  ├──────────┐        │               A datagram is in the transition to `single` when it was sent after the
──┴──────────┴────────┴──────► time   change was asked for and still came twice; its length runs from the
  bicast … last copy                  question to the sending of the last such one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, exactly, figure, middle, percentile, worst
from bench.lab import Lab, lab
from bench.spy import FLOW_MOD, GROUP_MOD
from topologies.paper import SERVER, PaperTopo

PROGRAM = [sys.executable, str(Path(__file__).with_name("datagrams.py"))]
PORT, RATE_PPS = 7400, 2000
CHANGES, EVERY_S = 100, 0.15
TRANSITION_S = 0.05  # whatever lasts longer is no transition any more
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Change:
    mode: str
    asked: float  # time.monotonic()
    answered: float


@dataclass(frozen=True, slots=True)
class Round:
    changes: Sequence[Change]
    sent: int
    lateness_s: float  # of the sender, at worst
    copies: Counter[int]  # of each number
    sent_at: dict[int, float]
    flow_mods: int
    group_mods: int

    @property
    def lost(self) -> list[int]:
        return [number for number in range(self.sent) if number not in self.copies]

    def transitions_s(self, mode: str) -> list[float]:
        """For each change to `mode`, from its question to the sending of the last datagram treated as before."""
        before = 2 if mode == "single" else 1
        begins = [change.asked for change in self.changes]
        last: dict[int, float] = {}
        for number, count in self.copies.items():
            at = bisect_right(begins, self.sent_at[number]) - 1
            if at >= 0 and self.changes[at].mode == mode and count == before:
                last[at] = max(last.get(at, 0.0), self.sent_at[number])
        return [
            max(0.0, last.get(at, change.asked) - change.asked)
            for at, change in enumerate(self.changes)
            if change.mode == mode
        ]


def one_round(stage: Lab) -> Round:
    client, server = stage.net.machine("client"), stage.net.machine("server")
    stage.controller.client.set_mode("client", "bicast")
    ear = server.popen([*PROGRAM, "receive", str(PORT)], stdin=subprocess.PIPE, stderr=None, text=True)
    assert ear.stdout is not None and ear.stdout.readline() == "ready\n"
    words = [*PROGRAM, "send", SERVER, str(PORT), str(RATE_PPS)]
    mouth = client.popen(words, stdin=subprocess.PIPE, stderr=None, text=True)
    assert mouth.stdout is not None and mouth.stdout.readline() == "sending\n"
    began = time.monotonic()
    changes = []
    for number in range(CHANGES):
        time.sleep(max(0.0, began + (number + 1) * EVERY_S - time.monotonic()))
        mode = "bicast" if number % 2 else "single"
        asked = time.monotonic()
        stage.controller.client.set_mode("client", mode)
        changes.append(Change(mode, asked, time.monotonic()))
    time.sleep(EVERY_S)
    sent, lateness_s = json.loads(mouth.communicate("enough\n")[0])
    seen = json.loads(ear.communicate("enough\n")[0])
    return Round(
        changes,
        sent,
        lateness_s,
        Counter(number for number, _, _ in seen),
        {number: at for number, at, _ in seen},
        stage.spy.count(FLOW_MOD, since=began),
        stage.spy.count(GROUP_MOD, since=began),
    )


def measure() -> Iterator[Figure]:
    with lab(PaperTopo(shaped=False), ("bicast: [tcp]", "bicast: [tcp, udp]")) as stage:
        rounds = [one_round(stage) for _ in range(ROUNDS)]
    lost = [float(len(each.lost)) for each in rounds]
    thrice = [float(sum(count > 2 for count in each.copies.values())) for each in rounds]
    flow_mods = [float(each.flow_mods) for each in rounds]
    group_mods = [each.group_mods / CHANGES for each in rounds]
    answers_ms = [(change.answered - change.asked) * 1000 for each in rounds for change in each.changes]
    single_ms = [seconds * 1000 for each in rounds for seconds in each.transitions_s("single")]
    bicast_ms = [seconds * 1000 for each in rounds for seconds in each.transitions_s("bicast")]
    after = [float(_copies_after(each)) for each in rounds]
    what = f"{CHANGES} changes of mode under {RATE_PPS} datagrams/s"
    yield worst(f"{what}: datagrams lost", lost, "datagrams", exactly(0))
    yield worst("  seen more than twice", thrice, "datagrams", exactly(0))
    later = f"  seen more than once in single, sent later than {TRANSITION_S * 1000:g} ms after the question"
    yield worst(later, after, "datagrams", exactly(0))
    yield worst("  transition to single, the longest", single_ms, "ms")
    yield figure("  transition to single, p99", percentile(single_ms, 99), single_ms, "ms")
    yield middle("  transition to single, median", single_ms, "ms")
    yield middle("  transition to bicast, median", bicast_ms, "ms")
    yield middle("  the API's answer, median", answers_ms, "ms")
    yield worst("  flow modifications sent", flow_mods, "messages", exactly(0))
    yield middle("  group modifications sent for one change", group_mods, "messages")
    yield worst("  the sender's own lateness", [each.lateness_s * 1000 for each in rounds], "ms")


def _copies_after(each: Round) -> int:
    """Datagrams that came twice though sent in `single` when the transition must be over."""
    begins = [change.asked for change in each.changes]
    found = 0
    for number, count in each.copies.items():
        at = bisect_right(begins, each.sent_at[number]) - 1
        if count > 1 and at >= 0 and each.changes[at].mode == "single":
            found += each.sent_at[number] > begins[at] + TRANSITION_S
    return found
