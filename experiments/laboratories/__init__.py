# SPDX-License-Identifier: Apache-2.0
"""Topologies with the controller and agents on them, which several experiments and tests share."""
