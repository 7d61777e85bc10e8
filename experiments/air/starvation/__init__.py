# SPDX-License-Identifier: Apache-2.0
"""Capped terminals beside an uncapped sender: what each gets, also with the rule off."""
