# SPDX-License-Identifier: Apache-2.0
"""Plan the terminals, distances and rules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from topologies.access_point import TERMINALS

GUEST = "t7"  # uncapped
HELD = TERMINALS[:6]
RTTS_MS = {"s4": 4, "s16": 16, "s64": 128, "s256": 256}  # in this laboratory


class Guest(StrEnum):
    KILLED = "an upload whose agent is killed"
    UPLOAD = "an upload that nobody holds"
    UNLISTED = "an upload of a terminal that the file does not name there"
    DATAGRAMS = "UDP of 5 Mbit/s"
    DOWNLOAD = "a download"
    BURSTS = "an upload of 3 s in each 6 s"


@dataclass(frozen=True, slots=True)
class Mix:
    guest: Guest
    rtts_ms: tuple[int, ...]  # of capped terminals, in turns
    guest_rtt_ms: int = 16
    by_gateway: bool = False

    def server(self, terminal: int) -> str:
        return server_at(self.rtts_ms[terminal % len(self.rtts_ms)])

    def __str__(self) -> str:
        ways = "/".join(map(str, self.rtts_ms))
        hand = "the gateway's agent" if self.by_gateway else "their agents"
        return f"{len(HELD)} at {ways} ms held by {hand}, beside {self.guest} at {self.guest_rtt_ms} ms"


MIXES = (
    Mix(Guest.KILLED, (16, 128), 16),
    Mix(Guest.UPLOAD, (4, 16, 128, 256), 16),
    Mix(Guest.DATAGRAMS, (4, 256)),
    Mix(Guest.DOWNLOAD, (16, 128)),
    Mix(Guest.BURSTS, (4, 16, 128, 256), 16),
    Mix(Guest.UNLISTED, (16, 128), 16, by_gateway=True),
)
RULES = ("off", "ideal")
PROMISED = 0.9  # of each capped terminal's share


def server_at(rtt_ms: int) -> str:
    return next(name for name, each in RTTS_MS.items() if each == rtt_ms)
