# SPDX-License-Identifier: Apache-2.0
"""Agents as every feature sees them: the session, the order slot, and the ownership of addresses."""
