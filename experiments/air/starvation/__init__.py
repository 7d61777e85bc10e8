# SPDX-License-Identifier: Apache-2.0
"""Terminals that are held, beside one that nobody holds: what each gets, and what it gets with the rule off."""
