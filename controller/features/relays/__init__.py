# SPDX-License-Identifier: Apache-2.0
"""Relays: their orders, the interception of connections, and the choice of relays (docs/how-to/relay.md)."""
