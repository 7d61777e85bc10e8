# SPDX-License-Identifier: Apache-2.0
"""Decisions about copies: whether they pay, by evidence of loss, and their budget."""
