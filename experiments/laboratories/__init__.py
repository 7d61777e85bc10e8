# SPDX-License-Identifier: Apache-2.0
"""Topologies with a controller and agents, for experiments and tests."""
