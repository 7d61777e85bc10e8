# SPDX-License-Identifier: Apache-2.0
"""Soak tests take hours. Only `make soak` collects them."""

from __future__ import annotations

import os

from tests.system.conftest import place

__all__ = ["place"]

SOAK_S = float(os.environ.get("BICAST_SOAK_S", "0"))
collect_ignore_glob = [] if SOAK_S else ["test_*.py"]
