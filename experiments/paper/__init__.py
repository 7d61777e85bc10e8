# SPDX-License-Identifier: Apache-2.0
"""The five papers' printed values."""
