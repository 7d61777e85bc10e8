# SPDX-License-Identifier: Apache-2.0
"""The values of a plan: the host's state, the required state, and what a step would harm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.links import Link, Offloads
from gateway.ovs import SeenOvs


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that must be so. No commands: it is."""

    name: str
    found: str
    wanted: str
    commands: tuple[tuple[str, ...], ...] = ()
    fault: str = ""  # why Open vSwitch could not do what its database asks for
    awaits: bool = False  # a device that somebody else makes: until then Open vSwitch complains that it is not there

    @property
    def right(self) -> bool:
        return not self.commands and not self.fault


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that would be harmed."""

    name: str
    sentence: str
    forcible: bool = True
    mend: str | None = None


@dataclass(frozen=True, slots=True)
class HostState:
    ovs: SeenOvs
    links: Mapping[str, Link]
    offloads: Mapping[str, Offloads]  # of the links that a netdev datapath reads, and that tunnels leave by
    room_bytes: int | None  # for what a netdev datapath sends; None: no such socket was seen


@dataclass(frozen=True, slots=True)
class BridgePlan:
    site: str
    steps: tuple[Step, ...]
    refusals: tuple[Refusal, ...] = ()
