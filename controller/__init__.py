# SPDX-License-Identifier: Apache-2.0
"""The controller decides how each bridge of a multihomed site forwards packets."""
