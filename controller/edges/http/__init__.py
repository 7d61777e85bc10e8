# SPDX-License-Identifier: Apache-2.0
"""The HTTP API, and its client for cli and lab."""
