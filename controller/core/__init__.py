# SPDX-License-Identifier: Apache-2.0
"""The core turns events into effects. It holds the configuration, every switch and every feature. No I/O."""
