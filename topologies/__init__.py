# SPDX-License-Identifier: Apache-2.0
"""The stage: Mininet topologies in a world of their own, on an Open vSwitch of their own."""
