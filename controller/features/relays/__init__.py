# SPDX-License-Identifier: Apache-2.0
"""Relays: their orders, the interception of connections, and the relay of each one (docs/how-to/relay.md)."""
