"""Relays: who is one, whose connections are intercepted, and by which relay each goes (docs/relay.md)."""
