"""Where agents of sites behind a NAT live, and where they reach the controller."""

from __future__ import annotations

CONTROLLER = "198.18.1.1"  # of the world's own namespace, for the agents in the two hosts
SITE_HOSTS = {"home": "homehost", "far": "farhost"}  # by site
