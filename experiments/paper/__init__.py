# SPDX-License-Identifier: Apache-2.0
"""What the five papers printed, as the experiments read it."""
