# SPDX-License-Identifier: Apache-2.0
"""The addresses of agents behind a NAT, and of the controller that they reach."""

from __future__ import annotations

CONTROLLER = "198.18.1.1"  # of the world's own namespace, for the agents in the two hosts
SITE_HOSTS = {"home": "homehost", "far": "farhost"}  # by site
