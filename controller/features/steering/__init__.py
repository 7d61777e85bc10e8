# SPDX-License-Identifier: Apache-2.0
"""Steering: terminals moved between their uplinks, through the agent that reaches their connections."""
