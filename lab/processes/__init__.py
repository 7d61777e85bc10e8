# SPDX-License-Identifier: Apache-2.0
"""Processes of a world: the controller, agents and captures."""
