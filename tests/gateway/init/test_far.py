# SPDX-License-Identifier: Apache-2.0
"""A far site keeps network managers off the devices that bicast makes."""

from __future__ import annotations

from fnmatch import fnmatch

from gateway.init import document
from gateway.init.far import OWN_DEVICES


def test_far_devices_are_unmanaged() -> None:
    for name in ("br-far", "tf-1", "tf-8", document.EXIT_PORT, f"{document.EXIT_PORT}-h"):
        assert any(fnmatch(name, each) for each in OWN_DEVICES), name
