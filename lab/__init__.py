# SPDX-License-Identifier: Apache-2.0
"""The lab: one library for tests and experiments. It raises networks and runs the real product in them."""
