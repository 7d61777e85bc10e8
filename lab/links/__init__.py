# SPDX-License-Identifier: Apache-2.0
"""Links shaped by the kernel or build/link-emulator."""
