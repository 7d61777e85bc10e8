# SPDX-License-Identifier: Apache-2.0
"""Copies: the terminals that get them in mode auto, their cost, and the evidence for them."""
