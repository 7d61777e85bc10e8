# SPDX-License-Identifier: Apache-2.0
"""The state of the switches. No I/O."""
