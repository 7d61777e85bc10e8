"""Decisions: what was reported in, what should be done and why out. Pure; time is an argument."""
