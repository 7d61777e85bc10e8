"""Estimates of bandwidth: from one-way delays, from trains of packets, and from what flows get (paper 004)."""
