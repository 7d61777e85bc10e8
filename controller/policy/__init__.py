# SPDX-License-Identifier: Apache-2.0
"""The policies: observations in, decisions with their reasons out. Pure; time is an argument."""
