"""Relays: who is one, who goes by which, and why (docs/relay.md)."""
