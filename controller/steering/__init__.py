"""Terminals moved between their uplinks: who is where, whose hand reaches it, and what was decided. Pure."""
