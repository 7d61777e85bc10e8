"""What `experiment relay`'s parts `cost` and `home` measure, shorter, with what was promised of them."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.relay import cost, home
from experiments.relay.cost.plan import SHORT as COST
from experiments.relay.home.plan import SHORT as HOME
from lab.results.figures import Figure


def measure() -> Iterator[Figure]:
    yield from cost.CAMPAIGN.bench(COST)
    yield from home.CAMPAIGN.bench(HOME)
