# SPDX-License-Identifier: Apache-2.0
"""Links with a rate, a queue, loss and delay, shaped by the kernel or by build/link-emulator."""
