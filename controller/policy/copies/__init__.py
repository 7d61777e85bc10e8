"""Decisions about copies: whether they pay, by evidence of loss, and their budget."""
