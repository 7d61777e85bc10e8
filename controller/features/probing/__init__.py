# SPDX-License-Identifier: Apache-2.0
"""Probing: the paths between sites, measured by small packets and by probes that agents send each other."""
