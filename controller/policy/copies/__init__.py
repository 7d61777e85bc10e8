"""Decisions about copies: whether they pay, by evidence of loss, and what they may cost."""
