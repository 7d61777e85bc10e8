# SPDX-License-Identifier: Apache-2.0
"""The brain: decides what every bridge of a multihomed site does with its packets."""
