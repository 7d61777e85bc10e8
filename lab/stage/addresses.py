# SPDX-License-Identifier: Apache-2.0
"""Addresses of agents behind a NAT and their controller."""

from __future__ import annotations

CONTROLLER = "198.18.1.1"  # in the root network namespace of the world (isolate.py)
SITE_HOSTS = {"home": "homehost", "far": "farhost"}  # by site: its host behind the NATs
