# SPDX-License-Identifier: Apache-2.0
"""Results: measured figures with the values that were promised, and campaigns of many runs."""
