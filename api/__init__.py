# SPDX-License-Identifier: Apache-2.0
"""The protocol between the controller and its agents (agent.proto), and the code generated from it."""
