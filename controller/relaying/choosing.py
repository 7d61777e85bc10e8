"""Which relays a site's connections to one place go by: the policy that is written, asked with what is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from zlib import crc32

from controller.carried import Relaying
from controller.model import Choosing
from controller.policy.legs import Leg
from controller.policy.relays import Candidate, Choice, parallel, ping, predicted, traceroute

MOST_TOGETHER = 4


@dataclass(frozen=True, slots=True)
class Question:
    """What a choice follows from."""

    place: str
    direct: Leg
    candidates: tuple[Candidate, ...]  # those that are heard first: of equals the first is chosen
    present: tuple[str, ...]  # what was chosen before
    uplink_bps: float | None  # what comes to the site by one uplink, which each terminal's packets ride


def candidate(name: str, near: Leg, far: Leg, told: Relaying | None) -> Candidate:
    """`told`: what the relay said of itself, the last time."""
    overhead_ms = told.overhead_us / 1e3 if told and told.overhead_us else None
    return Candidate(name, near, far, told.busy_percent / 100 if told else None, overhead_ms)


def _ping(asked: Question) -> Choice:
    return ping(asked.direct, asked.candidates)


def _traceroute(asked: Question) -> Choice:
    return traceroute(asked.direct, asked.candidates, _draw(asked))


def _predicted(asked: Question) -> Choice:
    return predicted(asked.direct, asked.candidates, asked.present)


def _parallel(asked: Question) -> Choice:
    return parallel(
        asked.direct, asked.candidates, most=MOST_TOGETHER, present=asked.present, uplink_bps=asked.uplink_bps
    )


CHOOSE: Mapping[Choosing, Callable[[Question], Choice]] = {
    Choosing.PREDICTED: _predicted,
    Choosing.PARALLEL: _parallel,
    Choosing.PING: _ping,
    Choosing.TRACEROUTE: _traceroute,
}
"""What is not here, `nearest`, asks nobody: the gateway takes the relay that it reaches fastest."""


def by_all(asked: Question) -> Mapping[Choosing, Choice]:
    """What each way to choose would; that of routers where they were told of."""
    walked = (asked.direct, *(each.far for each in asked.candidates))
    told = all(leg.routers for leg in walked)
    return {each: way(asked) for each, way in CHOOSE.items() if told or each is not Choosing.TRACEROUTE}


def _draw(asked: Question) -> float:
    """The paper's dice, thrown once for a place and those that there are: the same after a restart."""
    names = ",".join(sorted(each.name for each in asked.candidates))
    return crc32(f"{asked.place} {names}".encode()) / 2**32
