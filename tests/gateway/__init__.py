# SPDX-License-Identifier: Apache-2.0
"""A host is prepared with a real Open vSwitch and the real kernel, in namespaces of its own."""
