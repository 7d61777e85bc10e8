# SPDX-License-Identifier: Apache-2.0
"""Plan the uploads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

MIX = "4 + 256"  # alternate terminals use the farther one
CONTENTION = 0.05  # of the rate, per further station with packets waiting
LOSS_PERCENT = 1.0
WIDE_SCALE = 14
CUBIC, BBR = "cubic", "bbr"
NOBODY, TERMINALS, GATEWAY = "nobody", "the terminals' agents", "the gateway's agent"


@dataclass(frozen=True, slots=True)
class Variant:
    """A rule, its enforcing agents, and the senders' congestion control."""

    name: str
    rule: str = "off"  # as in gateway.yaml
    tables: str = "jb"
    enforcer: str = NOBODY
    congestion_control: str = CUBIC

    def __str__(self) -> str:
        return self.name


OFF = Variant("off")
UNCAPPED_BBR = Variant("off, BBR", congestion_control=BBR)
GB_TERMINALS = Variant("paper (GB), terminals", "paper", "gb", TERMINALS)
JB_TERMINALS = Variant("paper (JB), terminals", "paper", "jb", TERMINALS)
JB_GATEWAY = Variant("paper (JB), gateway", "paper", "jb", GATEWAY)
GB_GATEWAY = Variant("paper (GB), gateway", "paper", "gb", GATEWAY)
IDEAL_TERMINALS = Variant("ideal, terminals", "ideal", enforcer=TERMINALS)
IDEAL_GATEWAY = Variant("ideal, gateway", "ideal", enforcer=GATEWAY)


@dataclass(frozen=True, slots=True)
class Scene:
    """Terminals, their distances, and the link's properties."""

    terminals: int
    rtt: str  # in ms, or MIX
    connections: int = 1  # per terminal
    loss_percent: float = 0.0  # uplink
    contention: float = 0.0
    window_scale: int = 0  # of the servers; 0: the kernel's own

    @property
    def mixed(self) -> bool:
        return self.rtt == MIX

    @property
    def least_rtt_ms(self) -> float:
        return 4.0 if self.mixed else float(self.rtt)

    def server(self, terminal: int) -> str:
        """Return the server of this terminal; numbers start at 0."""
        if not self.mixed:
            return f"s{self.rtt}"
        return "s256" if terminal % 2 else "s4"

    @property
    def equal(self) -> bool:
        return not self.mixed and self.terminals > 1

    def __str__(self) -> str:
        terminals = "1 terminal" if self.terminals == 1 else f"{self.terminals} terminals"
        parts = [f"{terminals}, {self.rtt} ms"]
        if self.connections > 1:
            parts.append(f"{self.connections} connections each")
        if self.loss_percent:
            parts.append(f"{self.loss_percent:g} % lost")
        if self.contention:
            parts.append(f"{100 * self.contention:g} % of the rate for each further station")
        if self.window_scale:
            parts.append(f"window scale {self.window_scale}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Task:
    scene: Scene
    variant: Variant


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # file stem
    seconds: float
    tasks: tuple[Task, ...]


def tasks(*parts: tuple[Sequence[Scene], Sequence[Variant]]) -> tuple[Task, ...]:
    """A laboratory has agents of one kind, so tasks are sorted by them."""
    every = [Task(*each) for part in parts for each in product(*part)]
    return tuple(sorted(every, key=lambda task: (NOBODY, TERMINALS, GATEWAY).index(task.variant.enforcer)))


def scenes(terminals: Sequence[int], rtts: Sequence[str]) -> list[Scene]:
    return [Scene(*each) for each in product(terminals, rtts)]


def _lossy_scenes(*rtts: str) -> Iterator[Scene]:
    for rtt, terminals in product(rtts, (1, 10)):
        yield Scene(terminals, rtt, loss_percent=LOSS_PERCENT)


def _contended_scenes(*scene: tuple[int, str]) -> Iterator[Scene]:
    for terminals, rtt in scene:
        yield Scene(terminals, rtt, contention=CONTENTION)


# The gateway's rule lacks only the lower limit of the terminals' rule.
UNDER_LOSS = (OFF, UNCAPPED_BBR, IDEAL_TERMINALS, IDEAL_GATEWAY)
PAIR = (OFF, IDEAL_TERMINALS)
MANY = tuple(Scene(5, rtt, connections=4) for rtt in ("4", "64"))
SCALED = tuple(Scene(10, rtt, window_scale=WIDE_SCALE) for rtt in ("4", "64"))
QUICK = Plan(
    "quick",
    10.0,
    tasks(
        (
            [*scenes((1,), ("4", "256")), *scenes((10,), ("4", "64", "256", MIX))],
            (OFF, JB_TERMINALS, IDEAL_TERMINALS, IDEAL_GATEWAY),
        ),
        (list(_lossy_scenes("256")), UNDER_LOSS),
        (MANY[:1], (IDEAL_TERMINALS,)),
        (list(_contended_scenes((10, "256"))), PAIR),
        (SCALED[:1], (IDEAL_GATEWAY,)),
    ),
)
RTTS = ("4", "16", "64", "256", MIX)
FULL = Plan(
    "full",
    30.0,
    tasks(
        (scenes((1, 5, 10), RTTS), (OFF, JB_TERMINALS, IDEAL_TERMINALS, IDEAL_GATEWAY)),
        (scenes((1, 10), ("4", "64", "256")), (GB_TERMINALS,)),
        (scenes((10,), ("4", "256")), (JB_GATEWAY, GB_GATEWAY)),
        (list(_lossy_scenes("64", "256")), UNDER_LOSS),
        (MANY, PAIR),
        (list(_contended_scenes((1, "4"), (10, "4"), (10, "256"))), (OFF, GB_TERMINALS, JB_TERMINALS, IDEAL_TERMINALS)),
        (SCALED, (IDEAL_GATEWAY,)),
    ),
)
SHORT = Plan("short", 8.0, tasks((scenes((10,), ("4", "64")), PAIR)))
