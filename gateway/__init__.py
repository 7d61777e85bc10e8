# SPDX-License-Identifier: Apache-2.0
"""The host of a bridge: `bridge` prepares it, and `doctor` checks it."""
