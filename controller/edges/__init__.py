# SPDX-License-Identifier: Apache-2.0
"""The edges: files, sockets, clocks, threads and frameworks. Each folder hides one technology."""
