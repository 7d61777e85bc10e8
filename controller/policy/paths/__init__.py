# SPDX-License-Identifier: Apache-2.0
"""Decisions about paths: the health of each uplink, the preferred one, and the relay of a connection."""
