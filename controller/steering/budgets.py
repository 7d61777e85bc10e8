"""What copies have used of uplinks with limits, by the counters of both their ends; and what follows for them.

readings of switches ──► counters that go on over a switch's restart ──► accounts (policy/budget.py)
                                                                            ├──► uplinks that are barred, and why
                                                                            └──► the rate that copies are held to
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.events import Installed
from controller.known import Counted, Port, Rate, Spent
from controller.model import UNLIMITED, Config, Site
from controller.policy import budget
from controller.policy.budget import Account, Moment
from controller.tables.metered import Copied, counted

Metered = tuple[str, str]  # home and uplink
AWAITED_S = 10.0  # the other end's switch, after a start
PARTS = 16  # of what is left, at each end: a second's rate, and a burst


def named(metered: Metered) -> str:
    return "/".join(metered)


class Upward:
    """A count that goes on where the switch counts anew."""

    def __init__(self, base: int = 0) -> None:
        self._base, self._last = base, 0

    def read(self, value: int) -> None:
        if value < self._last:
            self._base += self._last
        self._last = value

    @property
    def count(self) -> int:
        return self._base + self._last


class Counter:
    """One end's, of one uplink. What is dropped between a reading and a meter's next change counts as used."""

    def __init__(self, copied: Copied, carried: int, late: bool) -> None:
        """`late`: others are counted already; what it has counted by now is of any time, and counts for nothing."""
        self._offered = Upward(copied.dropped - copied.offered if late else 0)
        self._dropped = Upward()
        self._carried = Upward(-carried if late else 0)

    def read(self, copied: Copied, carried: int) -> None:
        self._offered.read(copied.offered)
        self._dropped.read(copied.dropped)
        self._carried.read(carried)

    @property
    def counted(self) -> Counted:
        return Counted(self._offered.count - self._dropped.count, self._carried.count)


class Budgets:
    def __init__(self, config: Config, kept: Mapping[str, Spent], now: float) -> None:
        self._kept = kept  # by a controller before this one
        self._begun_at = now
        self._moment: Moment | None = None
        self._accounts: dict[Metered, Account] = {}
        self._counters: dict[Metered, dict[int, Counter]] = {}  # by dpid
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        self._ends: dict[Metered, tuple[int, ...]] = {}
        self._limits = {}
        for site in (each for each in config.sites if each.mirrors is None):
            for uplink in (each for each in site.uplinks if each.limits != UNLIMITED):
                self._ends[site.name, uplink.name] = config.ends(site)
                self._limits[site.name, uplink.name] = uplink.limits
        self._kept = {**self._kept, **self.spent}
        self._accounts = {}
        self._counters = {at: counters for at, counters in self._counters.items() if at in self._ends}
        if self._moment is not None:
            self.tells_time(self._moment)

    # What is seen

    def tells_time(self, moment: Moment) -> None:
        self._moment = moment
        for at, limits in self._limits.items():
            if at not in self._accounts:
                self._accounts[at] = budget.opened(limits, self._kept.get(named(at)), moment)

    def read(self, site: Site, ports: Mapping[str, Port], installed: Installed, now: float) -> None:
        """By one end's switch."""
        there = (ports[uplink.port].number for uplink in site.uplinks if uplink.port in ports)
        sent = (installed.port_counters[number].sent.bytes for number in there if number in installed.port_counters)
        carried = sum(sent)
        for uplink, copied in counted(site, installed).items():
            self._counted((site.home, uplink), site.dpid, copied, carried, now)

    def _counted(self, at: Metered, dpid: int, copied: Copied, carried: int, now: float) -> None:
        counters = self._counters.setdefault(at, {})
        account = self._accounts.get(at)
        if dpid not in counters:
            counters[dpid] = Counter(copied, carried, late=account is not None and account.read)
        counters[dpid].read(copied, carried)
        all_read = counters.keys() >= set(self._ends.get(at, ()))
        if account is None or self._moment is None or not (all_read or now - self._begun_at >= AWAITED_S):
            return
        each = [counter.counted for counter in counters.values()]
        total = Counted(sum(one.copied_bytes for one in each), sum(one.carried_bytes for one in each))
        self._accounts[at] = budget.counted(account, total, self._moment)

    # What follows

    @property
    def spent(self) -> dict[str, Spent]:
        return {named(at): account.spent for at, account in self._accounts.items()}

    def account(self, home: str, uplink: str) -> Account | None:
        return self._accounts.get((home, uplink))

    def why(self, home: str, uplink: str) -> str | None:
        """Why there may be no copies by it; None: there may."""
        account = self._accounts.get((home, uplink))
        return budget.barred(account, self._moment) if account is not None and self._moment is not None else None

    @property
    def barred(self) -> dict[str, frozenset[str]]:
        """By home, uplinks."""
        found: dict[str, frozenset[str]] = {}
        for home, uplink in self._accounts:
            if self.why(home, uplink) is not None:
                found[home] = found.get(home, frozenset()) | {uplink}
        return found

    def rates(self, home: str) -> Mapping[str, Rate]:
        """By uplink with a budget, at each of its ends."""
        return dict(self._rates(home))

    def _rates(self, home: str) -> Iterator[tuple[str, Rate]]:
        for (at, uplink), account in self._accounts.items():
            budget_bytes = account.limits.budget_bytes_per_day
            if at == home and budget_bytes is not None:
                yield uplink, _rate(budget_bytes - account.spent.copied_bytes)


def _rate(left_bytes: int) -> Rate:
    """Such that until two readings from now, each of which may be of a second ago, not all of it can be used. In steps,
    so that a meter is seldom changed: each change fills its bucket anew."""
    step = 1 << max(left_bytes, 1).bit_length() - 1
    kbits = max(1, step * 8 // PARTS // 1000)
    return Rate(kbits, kbits)
