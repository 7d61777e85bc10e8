# SPDX-License-Identifier: Apache-2.0
"""The values of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.links import Link, Offloads
from gateway.ovs import SeenOvs


@dataclass(frozen=True, slots=True)
class Step:
    """One required state. Without commands, the host has it."""

    name: str
    found: str
    wanted: str
    commands: tuple[tuple[str, ...], ...] = ()
    fault: str = ""  # why Open vSwitch could not apply it
    awaits: bool = False  # made by the agent; missing for Open vSwitch until then

    @property
    def right(self) -> bool:
        return not self.commands and not self.fault


@dataclass(frozen=True, slots=True)
class Refusal:
    """Harm that a step would cause."""

    name: str
    sentence: str
    forcible: bool = True
    mend: str | None = None


@dataclass(frozen=True, slots=True)
class SeenHostEnd:
    """The host's settings for its end of a pair."""

    table: str  # its nft table; "": there is none
    sysctls: Mapping[str, str]  # those that matter; "": not there
    routes: frozenset[str]  # over the pair


@dataclass(frozen=True, slots=True)
class HostState:
    ovs: SeenOvs
    links: Mapping[str, Link]
    offloads: Mapping[str, Offloads]  # of netdev ports, and of tunnels' outer devices
    room_bytes: int | None  # send buffer of a netdev datapath; None: no socket
    host_ends: Mapping[str, SeenHostEnd] = field(default_factory=dict)  # by the bridge's port


@dataclass(frozen=True, slots=True)
class BridgePlan:
    site: str
    steps: tuple[Step, ...]
    refusals: tuple[Refusal, ...] = ()
