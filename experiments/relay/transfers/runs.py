"""The transfers themselves: several lanes at once, each with a direct one and a relayed one, over links apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from controller.model.text import counted
from controller.policy.paths.relays import Candidate, Leg, relayed, throughput
from experiments.relay.transfers.lanes import LINKS, RATE_BPS, Lane, LanesTopo
from experiments.relay.transfers.plan import WINDOW_BYTES, Plan, Task, chosen, swept
from experiments.relay.transfers.programs import Moved, overhead_ms, transferring
from lab.stage.stage import raised

LANES = 12
SWEEPING_LANES = 2  # these carry up to 100 Mbit/s each
ATTEMPTS = 2  # while the machine stalls
OVERHEAD_LEG_MS = 20.0


@dataclass(frozen=True, slots=True)
class Run:
    task: Task
    size_bytes: int
    overhead_ms: float  # of the relay, measured before
    direct: Moved
    relayed: Moved
    stalled: str

    @property
    def gain(self) -> float:
        """As paper 001 has it, of the whole transfer, in percent."""
        return 100 * (self.relayed.bps / self.direct.bps - 1)

    @property
    def predicted_direct_bps(self) -> float:
        return throughput(self._leg("direct"), self.task.window_bytes).bps

    @property
    def predicted_relayed_bps(self) -> float:
        candidate = Candidate(self.task.relay, self._leg("near"), self._leg("far"), overhead_ms=self.overhead_ms)
        found = relayed(self._leg("direct"), candidate, self.task.window_bytes)
        assert found is not None
        return found.bps

    @property
    def off(self) -> tuple[float, float]:
        """How far the predictions are off what was measured once it had begun, in percent: direct, and by the relay."""
        return (
            100 * (self.predicted_direct_bps / self.direct.steady_bps - 1),
            100 * (self.predicted_relayed_bps / self.relayed.steady_bps - 1),
        )

    def _leg(self, link: str) -> Leg:
        return Leg(self.task.rtts_ms[link], self.task.loss(link), RATE_BPS)

    def __str__(self) -> str:
        rates = f"direct {self.direct.bps / 1e6:.2f}, relayed {self.relayed.bps / 1e6:.2f} Mbit/s ({self.gain:+.0f} %)"
        off = " and ".join(f"{each:+.0f} %" for each in self.off)
        return f"{self.task}, {self.task.rtts_ms['direct']:.0f} ms: {rates}; predictions off by {off}"


def carry_out(plan: Plan, _logs: Path) -> Iterator[Run]:
    with raised(LanesTopo(LANES)) as net:
        lanes = [Lane(net, number) for number in range(LANES)]
        overheads_ms = overheads(lanes[0])
        for _ in range(plan.rounds):
            tasks = chosen(plan.pairs, overheads_ms)
            for name in dict.fromkeys(task.set for task in tasks):  # those of a set last alike
                of_set = [(task, plan.size_bytes) for task in tasks if task.set == name]
                yield from _batches(lanes, of_set, overheads_ms)
            yield from _batches(lanes[:SWEEPING_LANES], swept(), overheads_ms)


def overheads(lane: Lane) -> dict[bool, float]:
    """Of a relay that is crowded, and of one that is not."""
    for name in LINKS:
        lane.set(name, 2 * OVERHEAD_LEG_MS if name == "direct" else OVERHEAD_LEG_MS, 0.0)
    return {crowd: overhead_ms(lane, WINDOW_BYTES, crowd) for crowd in (False, True)}


def _batches(
    lanes: Sequence[Lane], tasks: Sequence[tuple[Task, int]], overheads_ms: dict[bool, float]
) -> Iterator[Run]:
    for _ in range(ATTEMPTS):
        again = []
        for first in range(0, len(tasks), len(lanes)):
            for run in batch(lanes, tasks[first : first + len(lanes)], overheads_ms):
                yield run
                again += [(run.task, run.size_bytes)] if run.stalled else []
        tasks = again


def batch(lanes: Sequence[Lane], tasks: Sequence[tuple[Task, int]], overheads_ms: dict[bool, float]) -> Iterator[Run]:
    with ExitStack() as transfers:
        pairs = []
        for lane, (task, size_bytes) in zip(lanes, tasks, strict=False):
            for name in LINKS:
                lane.set(name, task.rtts_ms[name], task.loss(name))
            entered = transferring(lane, task.window_bytes, size_bytes, task.crowded)
            pairs.append(transfers.enter_context(entered))
        missed = [lane.missed() for lane in lanes]
        for lane in lanes:
            lane.stalled()  # from here on it counts
        for each in (transfer for pair in pairs for transfer in pair):
            each.go()
        for lane, before, (task, size_bytes), pair in zip(lanes, missed, tasks, pairs, strict=False):
            direct, by_relay = (transfer.finish() for transfer in pair)
            count = lane.missed() - before
            stalled = lane.stalled() or (f"{counted(count, 'packets')} were not read by the links" if count else "")
            yield Run(task, size_bytes, overheads_ms[task.crowded], direct, by_relay, stalled)
