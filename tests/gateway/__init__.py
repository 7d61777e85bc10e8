# SPDX-License-Identifier: Apache-2.0
"""The preparation of a host, against a real Open vSwitch and the real kernel, in namespaces of their own."""
