# SPDX-License-Identifier: Apache-2.0
"""The core: an event in, effects out. It holds the configuration in force, every switch and every feature. Pure."""
