# SPDX-License-Identifier: Apache-2.0
"""The contract between the brain and the hands (agent.proto), and what is made of it."""
