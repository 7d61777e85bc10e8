# SPDX-License-Identifier: Apache-2.0
"""Programs that make traffic and count it at both ends."""
