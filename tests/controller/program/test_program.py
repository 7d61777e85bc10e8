"""What is wanted and what is read back are compared as text, which no age of Python may change."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Address, IPv6Network

import pytest

from controller.model.traffic import Family
from controller.program.program import written


class WithDots(IPv6Address):
    """Writes as Python 3.13 began to."""

    def __str__(self) -> str:
        mapped = self.ipv4_mapped
        return f"::ffff:{mapped}" if mapped else super().__str__()


class NetworkWithDots(IPv6Network):
    def __str__(self) -> str:
        return f"{WithDots(int(self.network_address))}/{self.prefixlen}"


@pytest.mark.parametrize("address", ["::ffff:c0a8:6e03", "::ffff:0:0", "::ffff:0:7", "fd00:110::3", "::", "::1"])
def test_every_python_writes_an_address_alike(address: str) -> None:
    assert written(WithDots(address)) == written(IPv6Address(address)) == address


@pytest.mark.parametrize("network", Family.IPV6.never_routed)
def test_every_python_writes_a_network_as_the_brain_does(network: str) -> None:
    assert written(NetworkWithDots(network)) == written(IPv6Network(network)) == network


def test_ipv4_is_written_with_dots() -> None:
    assert written(IPv4Network("10.0.0.0/8")) == "10.0.0.0/8"
