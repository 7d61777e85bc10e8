# SPDX-License-Identifier: Apache-2.0
"""Which stages, modes and scenes a call goes through, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from lab.links.shape import Bursts

TIMES = 3  # each, of --full
CLEAN_S, BAD_S = 3.0, 10.0
SETTLED_S = 32.0  # clean, where an agent may tell: trouble sooner than KEPT_S lets the next copies end later
HEALED_S = 3.0  # between two scenes
DELAYS = {"wifi_delay_ms": 10.0, "lte_delay_ms": 25.0}  # each way; and links that can lose in bursts
BURSTS = Bursts(1 / 100, 1 / 10)  # 9 % in the mean, ten packets at a time


@dataclass(frozen=True, slots=True)
class Scene:
    """What Wi-Fi loses, each way."""

    name: str
    up_percent: float = 0.0
    down_percent: float = 0.0
    bursts: Bursts | None = None


LOSING = Scene("4 % lost", 4.0, 4.0)
SCENES = (LOSING, Scene("bursts", bursts=BURSTS), Scene("dead downwards", 0.0, 100.0), Scene("black", 100.0, 100.0))


@dataclass(frozen=True, slots=True)
class StageOf:
    """Sites, and who is there."""

    name: str
    modes: tuple[str, ...]
    scenes: tuple[Scene, ...] = SCENES
    eliminated: bool = True
    with_agent: bool = False
    metered: bool = False
    tunnelled: bool = False  # the uplinks are then probed, and the scenes begin on one path


STAGES = (
    StageOf("an agent at the client, without TCP", ("auto",), with_agent=True),
    StageOf("no agent at the client", ("auto", "bicast", "single")),
    StageOf("no agent anywhere: TCP alone is copied", ("auto", "bicast", "single"), eliminated=False),
    StageOf("Wi-Fi has a budget; an agent at the client", ("auto",), (LOSING,), with_agent=True, metered=True),
    StageOf("tunnels, probed; auto is on one path at first", ("auto",), (LOSING,), with_agent=True, tunnelled=True),
)
