# SPDX-License-Identifier: Apache-2.0
"""The messages between the core and switches, agents and people."""
