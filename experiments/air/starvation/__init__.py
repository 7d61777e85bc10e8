# SPDX-License-Identifier: Apache-2.0
"""Capped terminals beside an uncapped sender."""
