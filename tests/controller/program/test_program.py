# SPDX-License-Identifier: Apache-2.0
"""What is wanted and what is read back are compared as text, which no age of Python may change."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest

from controller.program.program import written


class WithDots(IPv6Address):
    """Writes as Python 3.13 began to."""

    def __str__(self) -> str:
        mapped = self.ipv4_mapped
        return f"::ffff:{mapped}" if mapped else super().__str__()


@pytest.mark.parametrize("address", ["::ffff:c0a8:6e03", "::ffff:0:0", "::ffff:0:7", "fd00:110::3", "::", "::1"])
def test_every_python_writes_an_address_alike(address: str) -> None:
    assert written(WithDots(address)) == written(IPv6Address(address)) == address
