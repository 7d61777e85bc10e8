# SPDX-License-Identifier: Apache-2.0
"""Addresses of agents behind a NAT and their controller."""

from __future__ import annotations

CONTROLLER = "198.18.1.1"  # in the world's own namespace
SITE_HOSTS = {"home": "homehost", "far": "farhost"}  # by site
