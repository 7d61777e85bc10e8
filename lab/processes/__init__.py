# SPDX-License-Identifier: Apache-2.0
"""The controller and its agents as processes of a world, with their cost and their output."""
