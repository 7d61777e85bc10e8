"""The two ends of the relay, as processes: `bicast-agent relay` at its machine, and `take` at the gateway."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.relay.certificates import issue
from lab.processes.controller import TREE
from lab.stage import isolate
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine

AGENT = TREE / "build" / "bicast-agent"
PORT = 5000  # of the gateway's loopback, to which it leads what it takes
STOPS_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Pair:
    """Their process ids."""

    gateway: int
    relay: int


@contextmanager
def paired(
    gateway: Machine, relay: Machine, door: str, ports: str, taking: Sequence[str], serving: Sequence[str] = ()
) -> Iterator[Pair]:
    """`door` is the relay's ADDRESS:PORT, `ports` those of servers; the others are options of `take` and of `relay`."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pair-", dir=isolate.RUN_DIRECTORY)))
        theirs, ours = issue(place)
        guests = ("--gateway", ours.name, "--allow-ports", ports)
        serve = (str(AGENT), "relay", "--listen", door, *guests, *theirs.words, *serving)
        relaying = stack.enter_context(running(relay, serve, place / "relay.log"))
        towards = ("--relay", door, "--name", theirs.name, "--port", str(PORT), "--fallback", "block")
        take = (str(AGENT), "take", *towards, *ours.words, *taking)
        took = stack.enter_context(running(gateway, take, place / "take.log"))
        began(relaying, relay, place / "relay.log")
        began(took, gateway, place / "take.log")
        yield Pair(took.pid, relaying.pid)


@contextmanager
def running(machine: Machine, words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    """A program until the block ends; what it complains of is in `log`."""
    with log.open("w") as complaints:
        process = machine.popen([*words], stdout=subprocess.PIPE, stderr=complaints, text=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def began(process: subprocess.Popen[str], machine: Machine, log: Path) -> None:
    """Of a verb of the agent: it says a line."""
    assert process.stdout is not None
    if not process.stdout.readline():
        process.wait()
        raise ExperimentFailed(f"{machine.name}: {log.stem} did not begin, but said: {log.read_text().strip()}")
