# SPDX-License-Identifier: Apache-2.0
"""Caps: each terminal of an access point gets at most its part of the airtime."""
