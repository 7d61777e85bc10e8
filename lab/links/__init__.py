# SPDX-License-Identifier: Apache-2.0
"""Links with rate, queue, loss and delay, shaped by the kernel or build/link-emulator."""
