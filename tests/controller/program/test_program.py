# SPDX-License-Identifier: Apache-2.0
"""Programs are compared as text, which must not depend on the version of Python."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest

from controller.program.program import written


class WithDots(IPv6Address):
    """An address that prints as in Python 3.13 and later."""

    def __str__(self) -> str:
        mapped = self.ipv4_mapped
        return f"::ffff:{mapped}" if mapped else super().__str__()


@pytest.mark.parametrize("address", ["::ffff:c0a8:6e03", "::ffff:0:0", "::ffff:0:7", "fd00:110::3", "::", "::1"])
def test_address_text_is_equal_on_every_python(address: str) -> None:
    assert written(WithDots(address)) == written(IPv6Address(address)) == address
