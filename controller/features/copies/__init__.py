"""Copies: the terminals that get them in mode auto, their cost, and the evidence for them."""
