# SPDX-License-Identifier: Apache-2.0
"""Results: measured figures with promised values, and campaigns of many runs."""
