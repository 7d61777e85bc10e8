# SPDX-License-Identifier: Apache-2.0
"""Probing measures the paths between sites, with small packets and with probes between agents."""
