# SPDX-License-Identifier: Apache-2.0
"""Steering moves terminals between uplinks, through the agents that reach their connections."""
