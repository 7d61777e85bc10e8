# SPDX-License-Identifier: Apache-2.0
"""Measure links by probes and by ICMP errors."""

from __future__ import annotations

import csv
import math
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from controller.features.probing.probe_evaluation import ProbeSamples, Unreadable, read
from controller.policy.bandwidth import estimators
from controller.policy.bandwidth.estimators import Samples, Slope, calibrated, one_way, paper, rate, round_trip
from controller.policy.bandwidth.rates import Alpha, Rate, Unknown
from experiments.owd.plan import CALIBRATION, CALIBRATIONS, LONGEST_BYTES, STEP_BYTES, Link, Plan
from lab.processes.controller import TREE
from lab.stage import isolate
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.stage.stage import Stage, raised
from topologies.measured import DEVICE, FAR, MeasuredTopo

# A crystal's drift
#
# 33 us/s, as the paper measured (figure 1), wandering with a processor's temperature.
SKEW = 33e-6
WANDER = 1e-7  # of the skew, per second


def add_drift(samples: Samples, seed: int) -> tuple[Samples, float]:
    """Return the samples with a drifting far clock, and its mean drift in s/s."""
    dice = np.random.default_rng(seed)
    passed = np.diff(samples.sent, prepend=samples.sent[0])
    skew = SKEW + np.cumsum(dice.normal(0, WANDER * np.sqrt(np.maximum(passed, 0))))
    ahead = np.cumsum(skew * passed)
    mean = float(ahead[-1] / (samples.sent[-1] - samples.sent[0]))
    far = (samples.received + ahead, samples.answered + ahead)
    return Samples(samples.lengths, samples.sent, *far, samples.returned), mean


AGENT = TREE / "build" / "bicast-agent"
ERRORS = Path(__file__).with_name("errors.py")
PORT, CLOSED_PORT = 4400, 9
TRAINS = 20
ATTEMPTS = 3  # when the machine stalled
ERROR_ROUNDS = 3  # per link
ERROR_TRIES, ERROR_EVERY_US = 10, 10_000  # as in the paper
PATIENCE_S = 120.0
TRUNCATED_BELOW = 600  # bytes; errors quote shorter datagrams completely


@dataclass(frozen=True, slots=True)
class Run:
    link: Link
    number: int
    sent: int
    samples: Samples  # drifting clocks
    added: float  # to the far clock, in s/s
    paper: Slope
    one_way: Slope
    drifting: Slope  # one way, as if both ends had one clock
    round_trip: Slope
    rate: Rate | Unknown
    trains: Rate | Unknown
    errors: Slope | None  # None: not measured
    long_errors: Slope | None
    alpha: Alpha
    stalled: str

    @property
    def lost(self) -> int:
        return self.sent - len(self.samples.sent)

    def bps(self, slope: Slope) -> float:
        return 8 / (slope.s_per_byte - self.alpha.s_per_byte)

    def off(self, bps: float) -> float:
        """Return the deviation from the link's rate in percent."""
        return 100 * (bps / self.link.rate_bps - 1)

    @property
    def inside(self) -> bool:
        found = self.rate
        return isinstance(found, Rate) and found.least_bps <= self.link.rate_bps <= found.most_bps

    def __str__(self) -> str:
        told = [describe(self.rate, self.link), f"trains {describe(self.trains, self.link)}"]
        told.append(f"the paper's method {self.off(self.bps(self.paper)):+.1f} %")
        told.append(f"skew {1e6 * (self.one_way.drift - self.added):+.1f} ppm off")
        return f"{self.link}: {', '.join(told)}, {self.lost} of {self.sent} lost"


def describe(found: Rate | Unknown, link: Link) -> str:
    if isinstance(found, Unknown):
        return f"not known: {found.reason}"
    within = 50 * (found.most_bps - found.least_bps) / found.bps
    return f"{found.bps / 1e6:.4g} Mbit/s +- {within:.1f} % ({100 * (found.bps / link.rate_bps - 1):+.2f} %)"


def carry_out(plan: Plan, _logs: Path) -> Iterator[Run]:
    alpha = calibrate()
    for link in plan.links:
        with _raised(link) as (net, key):
            for number in range(plan.rounds):
                yield run_probe(net, key, link, number, alpha)


def calibrate() -> Alpha:
    """Return alpha of these hosts, the median of measurements on a link of known rate."""
    slopes: list[Slope] = []
    with _raised(CALIBRATION) as (net, key):
        for _ in range(CALIBRATIONS * ATTEMPTS):
            _stalled(net, CALIBRATION)  # forget earlier stalls
            slope = one_way(probe(net, key, CALIBRATION).samples)
            slopes += [] if _stalled(net, CALIBRATION) else [slope]
            if len(slopes) == CALIBRATIONS:
                break
    if not slopes:
        raise ExperimentFailed(
            "no calibration counts, because the machine stalled in each; try again on an idle machine"
        )
    return calibrated(sorted(slopes, key=lambda each: each.s_per_byte)[len(slopes) // 2], CALIBRATION.rate_bps)


def run_probe(net: Stage, key: Path, link: Link, number: int, alpha: Alpha) -> Run:
    _stalled(net, link)  # forget earlier stalls
    probed = probe(net, key, link)
    samples, added = add_drift(probed.samples, number)
    errors, long_errors = by_errors(net) if number < ERROR_ROUNDS else (None, None)
    return Run(
        link, number, probed.sent, samples, added,
        paper(samples), one_way(samples), drifting(samples), round_trip(samples), rate(samples, alpha),
        estimators.rate_of_trains(probed.trains), errors, long_errors, alpha, _stalled(net, link),
    )  # fmt: skip


def drifting(samples: Samples) -> Slope:
    """Fit the lower edge over length alone, like round trips that end where the packet arrived."""
    return round_trip(Samples(samples.lengths, samples.sent, *[samples.received] * 3))


def probe(net: Stage, key: Path, link: Link) -> ProbeSamples:
    words = ("--to", f"{FAR}:{PORT}", "--key-file", str(key), "--tries", str(link.tries), "--trains", str(TRAINS))
    every = ("--every", f"{link.every_us}us", "--lengths", f"{STEP_BYTES}-{LONGEST_BYTES}/{STEP_BYTES}")
    done = net.machine("near").run(str(AGENT), "probe", *words, *every, timeout_s=PATIENCE_S)
    try:
        return read(done.stdout)
    except Unreadable as error:
        raise ExperimentFailed(f"probe of {link}: {error}; check that `bicast-agent reflect` runs") from None


def by_errors(net: Stage) -> tuple[Slope, Slope]:
    """Return two estimates from ICMP errors: of all datagrams, and of those long enough to be truncated."""
    samples = errors_of(net.machine("near"), net.machine("far"))
    return paper(samples), paper(_only(samples, samples.lengths >= TRUNCATED_BELOW))


def errors_of(near: Machine, far: Machine) -> Samples:
    """Return samples without the far end's times: the delay is the round trip."""
    far.run("sysctl", "--quiet", "--write", "net.ipv4.icmp_ratelimit=0")
    numbers = (CLOSED_PORT, STEP_BYTES, LONGEST_BYTES, ERROR_TRIES, ERROR_EVERY_US)
    done = near.run(sys.executable, str(ERRORS), FAR, *map(str, numbers), timeout_s=PATIENCE_S)
    rows = [tuple(map(int, row)) for row in list(csv.reader(done.stdout.splitlines()))[1:]]
    if not rows:
        raise ExperimentFailed(f"{FAR} sent no ICMP error for any datagram")
    lengths, sent, heard = np.array(rows, dtype=np.int64).T
    origin = sent[0]
    unknown = np.full(len(rows), math.nan)
    return Samples(lengths.astype(float), (sent - origin) / 1e9, (heard - origin) / 1e9, unknown, unknown)


def _only(samples: Samples, which: np.ndarray) -> Samples:
    columns = (samples.lengths, samples.sent, samples.received, samples.answered, samples.returned)
    return Samples(*(column[which] for column in columns))


@contextmanager
def _raised(link: Link) -> Iterator[tuple[Stage, Path]]:
    topology = MeasuredTopo(rate_bps=link.rate_bps, others=link.others, bucket=link.bucket)
    with (
        raised(topology) as net,
        tempfile.TemporaryDirectory(prefix="owd-", dir=isolate.RUN_DIRECTORY) as place,
    ):
        key = Path(place) / "key"
        key.touch(mode=0o600)
        key.write_text(secrets.token_hex(32) + "\n", encoding="ascii")
        net.machine("near").run("ping", "-c", "1", FAR)  # learn the MACs
        words = (str(AGENT), "reflect", "--listen", f"{FAR}:{PORT}", "--key-file", str(key))
        reflector = net.machine("far").popen([*words], stdout=subprocess.PIPE, stderr=None, text=True)
        try:
            if not (reflector.stdout and reflector.stdout.readline().startswith("answers")):
                raise ExperimentFailed(f"`{' '.join(words)}` did not start; its error is above")
            yield net, key
        finally:
            reflector.kill()
            reflector.communicate()


def _stalled(net: Stage, link: Link) -> str:
    """Return the lateness since the previous call; the kernel's own links cannot tell."""
    if link.bucket:
        return ""
    late = net.uplink(DEVICE).lateness()
    return str(late) if late.stalled else ""
