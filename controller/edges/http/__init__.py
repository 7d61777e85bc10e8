# SPDX-License-Identifier: Apache-2.0
"""The HTTP API: its application, routes, admission, metrics and server; and its client, for cli and lab."""
