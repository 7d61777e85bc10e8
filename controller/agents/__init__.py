# SPDX-License-Identifier: Apache-2.0
"""Agents: session, order slot, and ownership of addresses."""
