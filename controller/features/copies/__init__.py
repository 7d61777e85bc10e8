"""Copies: which terminals have them in mode auto, what they cost, and what counters and reports tell of them."""
