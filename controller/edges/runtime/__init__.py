# SPDX-License-Identifier: Apache-2.0
"""The process, and the core's thread."""
