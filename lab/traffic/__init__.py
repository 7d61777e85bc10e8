# SPDX-License-Identifier: Apache-2.0
"""Traffic that is counted at both ends: downloads, streams and datagrams, and the programs that make it."""
