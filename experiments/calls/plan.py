# SPDX-License-Identifier: Apache-2.0
"""Plan the calls."""

from __future__ import annotations

from dataclasses import dataclass

from lab.links.shape import Bursts

TIMES = 3  # with --full
CLEAN_S, BAD_S = 3.0, 10.0
SETTLED_S = 32.0  # clean time before damage: copies that begin before KEPT_S count as a relapse and last longer
HEALED_S = 3.0  # between scenes
DELAYS = {"wifi_delay_ms": 10.0, "lte_delay_ms": 25.0}  # each way; emulated links can also lose in bursts
BURSTS = Bursts(1 / 100, 1 / 10)  # 9 % on average, ten packets at a time


@dataclass(frozen=True, slots=True)
class Scene:
    """Wi-Fi's loss, each way."""

    name: str
    up_percent: float = 0.0
    down_percent: float = 0.0
    bursts: Bursts | None = None


LOSING = Scene("4 % lost", 4.0, 4.0)
SCENES = (LOSING, Scene("bursts", bursts=BURSTS), Scene("dead downwards", 0.0, 100.0), Scene("black", 100.0, 100.0))


@dataclass(frozen=True, slots=True)
class StagePlan:
    name: str
    modes: tuple[str, ...]
    scenes: tuple[Scene, ...] = SCENES
    eliminated: bool = True
    with_agent: bool = False
    metered: bool = False
    tunnelled: bool = False  # probes uplinks; scenes begin on one path


STAGES = (
    StagePlan("an agent at the client, without TCP", ("auto",), with_agent=True),
    StagePlan("no agent at the client", ("auto", "bicast", "single")),
    StagePlan("no agent anywhere: TCP alone is copied", ("auto", "bicast", "single"), eliminated=False),
    StagePlan("Wi-Fi has a budget; an agent at the client", ("auto",), (LOSING,), with_agent=True, metered=True),
    StagePlan("tunnels, probed; auto is on one path at first", ("auto",), (LOSING,), with_agent=True, tunnelled=True),
)
