# SPDX-License-Identifier: Apache-2.0
"""The host that a bridge lives on: what it must be, made so by `bridge` and looked over by `doctor`."""
