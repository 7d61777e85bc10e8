# SPDX-License-Identifier: Apache-2.0
"""Peer sites: elimination of copies at the other end of the same uplinks, and the tunnels to it."""
