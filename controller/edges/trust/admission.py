# SPDX-License-Identifier: Apache-2.0
"""The admission of unauthenticated peers: evictions, and the rate of connections.

The oldest peer of the host that has most of them is evicted, so one host can only crowd out itself. Unfamiliar hosts go
first, so many strangers cannot crowd out a known host. A peer authenticates within a few round trips, long before its
turn.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Sequence
from ipaddress import IPv6Address, ip_address
from math import exp
from typing import Protocol, TypeVar

MOST_FAMILIAR = 1024  # hosts
MOST_RATED = 4096  # hosts; a forgotten one gets a full bucket
EACH_S = 100  # connections a second, from one host
ALL_S = 200  # connections a second, from all unfamiliar hosts
BURST_S = 5.0  # seconds of the rate, for a large house that reconnects
PREFIX_BITS = 64  # of IPv6: a host chooses the rest itself


class Stranger(Protocol):
    @property
    def host(self) -> str: ...


T = TypeVar("T", bound=Stranger)


def host_of(address: str) -> str:
    """Return the host of an address: all of an IPv6 /64 is one host."""
    parsed = ip_address(address.partition("%")[0])
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> 128 - PREFIX_BITS << 128 - PREFIX_BITS)}/{PREFIX_BITS}"


def superfluous(strangers: Sequence[T], most: int, familiar: Collection[str] = ()) -> T | None:
    """Return the peer to evict, or None up to `most`. `strangers` are ordered from oldest to newest."""
    if len(strangers) <= most:
        return None
    of_each = Counter(stranger.host for stranger in strangers)
    # max returns the first of equals: the oldest peer.
    return max(strangers, key=lambda stranger: (stranger.host not in familiar, of_each[stranger.host]))


class Familiar(Collection[str]):
    """The latest hosts of authenticated peers."""

    def __init__(self) -> None:
        self._hosts: OrderedDict[str, None] = OrderedDict()

    def add(self, host: str) -> None:
        self._hosts[host] = None
        self._hosts.move_to_end(host)
        if len(self._hosts) > MOST_FAMILIAR:
            self._hosts.popitem(last=False)

    def __contains__(self, host: object) -> bool:
        return host in self._hosts

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)


class TokenBucket:
    """A token bucket of connections."""

    def __init__(self, rate_per_s: float, now: float) -> None:
        self._rate_per_s, self._at = rate_per_s, now
        self._left = rate_per_s * BURST_S

    def left(self, now: float) -> float:
        self._left = min(self._left + (now - self._at) * self._rate_per_s, self._rate_per_s * BURST_S)
        self._at = now
        return self._left

    def take(self, now: float) -> bool:
        if self.left(now) < 1:
            return False
        self._left -= 1
        return True


class HostRate:
    """One host's own bucket, and its recent use of the unfamiliar hosts' shared one."""

    def __init__(self, now: float) -> None:
        self.bucket = TokenBucket(EACH_S, now)
        self._used, self._at = 0.0, now

    def used(self, now: float) -> float:
        self._used *= exp((self._at - now) / BURST_S)
        self._at = now
        return self._used

    def share(self, shared: TokenBucket, now: float) -> bool:
        """Take from the shared bucket, but never more than it keeps for the others.

        So two hosts at their full rate leave half of it, and a host that has used little is always served (dynamic
        thresholds, Choudhury and Hahne, 1998).
        """
        if self.used(now) >= shared.left(now) or not shared.take(now):
            return False
        self._used += 1
        return True


def too_often() -> str:
    return f"exceeded the limit of {EACH_S} connections per second from that host, or {ALL_S} from unknown hosts"


class Admission:
    """Limit new connections: each host by its own rate, unfamiliar hosts by a shared one too."""

    def __init__(self, familiar: Familiar, now: float) -> None:
        self._familiar = familiar
        self._all = TokenBucket(ALL_S, now)
        self._each: OrderedDict[str, HostRate] = OrderedDict()  # most recent last

    def admits(self, host: str, now: float) -> bool:
        rate = self._each.get(host)
        if rate is None:
            rate = self._each[host] = HostRate(now)
        self._each.move_to_end(host)
        if len(self._each) > MOST_RATED:
            self._each.popitem(last=False)
        return rate.bucket.take(now) and (host in self._familiar or rate.share(self._all, now))
