# SPDX-License-Identifier: Apache-2.0
"""The redundancy of a class of packets, as one value with four answers.

A second kind is a mode (config.py), a value here, and whatever an answer needs that no value has yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from controller.model.config import Mode


class PacketUplinks(Enum):
    """The uplinks of one packet."""

    OWN = "own"  # its subflow subnet's
    ACTIVE = "active"  # the others are its fallback
    EVERY = "every"  # usable one


@dataclass(frozen=True, slots=True, eq=False)
class Redundancy:
    """The answers are compared by identity."""

    mode: Mode  # its name
    sent_over: PacketUplinks  # which buckets carry a packet?
    eliminated: bool  # what must the far end do? Only TCP stands duplicates
    lost_over: PacketUplinks  # what does a loss mean? These uplinks lost each packet that is sent again
    spends: bool  # what does it cost? Bytes on other uplinks than the active one, which budgets bound

    @property
    def of_rest(self) -> Redundancy:
        """Return the redundancy of packets outside its traffic class: their duplicates would arrive."""
        return NONE if self.eliminated else self


OFF = Redundancy(Mode.OFF, PacketUplinks.OWN, eliminated=False, lost_over=PacketUplinks.OWN, spends=False)
NONE = Redundancy(Mode.SINGLE, PacketUplinks.ACTIVE, eliminated=False, lost_over=PacketUplinks.ACTIVE, spends=False)
COPIES = Redundancy(Mode.BICAST, PacketUplinks.EVERY, eliminated=True, lost_over=PacketUplinks.EVERY, spends=True)

BY_MODE = {each.mode: each for each in (OFF, NONE, COPIES)}  # mode auto alternates between two of them
