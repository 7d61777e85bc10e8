# SPDX-License-Identifier: Apache-2.0
"""Topologies with controller and agents."""
