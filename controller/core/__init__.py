# SPDX-License-Identifier: Apache-2.0
"""The core turns events into effects. No I/O."""
