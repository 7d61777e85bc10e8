# SPDX-License-Identifier: Apache-2.0
"""The process: the core's thread and inbox, the log and the wall clock."""
