# SPDX-License-Identifier: Apache-2.0
"""The process: the thread of the core and its inbox, the log and the wall clock."""
