# SPDX-License-Identifier: Apache-2.0
"""Caps limit each terminal of an access point to its share of the airtime."""
