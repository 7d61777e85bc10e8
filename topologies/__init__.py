# SPDX-License-Identifier: Apache-2.0
"""Mininet topologies for the lab."""
