# SPDX-License-Identifier: Apache-2.0
"""Unauthenticated peers at a listener: eviction and connection rates."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from controller.edges.trust import admission as peer_admission
from controller.edges.trust.admission import ALL_S, BURST_S, EACH_S, Admission, Familiar, host_of, superfluous


@dataclass(frozen=True)
class FakePeer:
    host: str
    number: int = 0


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_ipv6_host_is_its_64_bit_prefix(address: str, host: str) -> None:
    assert host_of(address) == host


def test_host_with_many_ipv6_addresses_evicts_no_other() -> None:
    lonely = FakePeer(host_of("192.0.2.7"))
    many = [FakePeer(host_of(f"2001:db8::{number:x}"), number) for number in range(1, 9)]
    assert superfluous([lonely, *many], 8) == many[0]


def test_peer_of_a_familiar_host_is_evicted_last() -> None:
    ours = [FakePeer("192.0.2.7", number) for number in range(3)]
    others = [FakePeer(f"198.51.100.{number}") for number in range(6)]
    assert superfluous([*ours, *others], 8, {"192.0.2.7"}) == others[0]
    assert superfluous(ours, 2, {"192.0.2.7"}) == ours[0]
    assert superfluous(ours, 3) is None


def test_latest_familiar_hosts_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_admission, "MOST_FAMILIAR", 2)
    familiar = Familiar()
    for host in ("a", "b", "a", "c"):
        familiar.add(host)
    assert set(familiar) == {"a", "c"}


def admitted(admission: Admission, hosts: list[str], now: float) -> int:
    return sum(admission.admits(host, now) for host in hosts)


def test_each_host_has_its_own_connection_rate() -> None:
    admission = Admission(Familiar(), 0.0)
    burst, second = int(EACH_S * BURST_S), EACH_S
    assert admitted(admission, ["a"] * 2 * burst, 0.0) == burst
    assert admission.admits("b", 0.0)
    assert admitted(admission, ["a"] * 2 * burst, 1.0) == second
    assert admitted(admission, ["a"] * 2 * burst, 1000.0) == burst


def test_many_hosts_together_do_not_keep_a_familiar_one_out() -> None:
    familiar = Familiar()
    familiar.add("ours")
    admission = Admission(familiar, 0.0)
    strangers = [f"host {number}" for number in range(2 * int(ALL_S * BURST_S))]
    assert admitted(admission, strangers, 0.0) == ALL_S * BURST_S
    assert not admission.admits("another", 0.0)
    assert admission.admits("ours", 0.0)


@pytest.mark.parametrize("greedy", [["a", "b"], ["2001:db8:1::/64", "2001:db8:2::/64", "c", "d"]])
def test_few_hosts_leave_room_for_every_other(greedy: list[str]) -> None:
    """No host is familiar, as after a start of the controller."""
    admission, refused, taken = Admission(Familiar(), 0.0), [], 0
    for tenth in range(600):
        now = tenth / 10
        taken += admitted(admission, greedy * 100, now)
        if not tenth % 10 and not admission.admits(f"agent {tenth}", now):
            refused.append(now)
    assert refused == []
    assert taken >= 0.8 * ALL_S * 60, "and use most of the rate"


def test_memory_of_hosts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_admission, "MOST_RATED", 10)
    admission = Admission(Familiar(), 0.0)
    admitted(admission, [f"host {number}" for number in range(1000)], 0.0)
    assert len(admission._each) == 10
