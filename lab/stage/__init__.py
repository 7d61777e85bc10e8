# SPDX-License-Identifier: Apache-2.0
"""The stage: an isolated world with machines, bridges and routers, on which topologies are built."""
