# SPDX-License-Identifier: Apache-2.0
"""The agents' side: listener, streams, and codec."""
