# SPDX-License-Identifier: Apache-2.0
"""Estimates of bandwidth: from one-way delays, from packet trains, and from the rates of flows (paper 004)."""
