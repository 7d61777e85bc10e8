"""What holding windows costs: a gateway's packets, and a terminal's processor.

The gateway's programs come and go by turns while one upload goes on, as fast as the processors do it
(agent/caps/receivewindow/bench_test.go). The kernel's own account gives what a terminal's take
(agent/caps/structops/cost_test.go).
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments.bench import golang
from lab.results.figures import Figure, Promise, at_least, below, middle

GATEWAY, TERMINAL = "Goodput/", "Cost/"
PROMISES: dict[tuple[str, str], Promise] = {
    (f"{GATEWAY}with offloads", "median-ratio"): at_least(0.95),
    (f"{TERMINAL}an upload beside a cap", "SockOps-%"): below(1),
    (f"{TERMINAL}an upload under a cap", "SockOps-%"): below(1),
    (f"{TERMINAL}connections beside a cap", "SockOps-%"): below(1),
}
TOLD = {
    "median-ratio": ("goodput through the gateway's programs, beside none", ""),
    "with-Mbit/s": ("goodput", "Mbit/s"),
    "SockOps-%": ("a processor's time, to give sockets the congestion control", "%"),
    "StructOps-%": ("a processor's time, in the congestion control", "%"),
}


def measure() -> Iterator[Figure]:
    yield from figures(golang.benchmark("caps/receivewindow", "Goodput", rounds=100))
    yield from figures(golang.benchmark("caps/structops", "Cost", rounds=3))


def figures(said: str) -> Iterator[Figure]:
    """Of what Go's benchmarks said."""
    for name, measured in golang.read(said).items():
        case = name.removeprefix(GATEWAY).removeprefix(TERMINAL)
        for unit, (what, told) in TOLD.items():
            if unit in measured:
                yield middle(f"{case}: {what}", measured[unit], told, PROMISES.get((name, unit)))
