# SPDX-License-Identifier: Apache-2.0
"""The edges: all code with a file, a socket, a clock, a thread or a framework. Each folder hides one technology."""
