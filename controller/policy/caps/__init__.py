# SPDX-License-Identifier: Apache-2.0
"""Decisions about caps: the window of each terminal of an access point, with the reason."""
