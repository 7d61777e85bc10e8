# SPDX-License-Identifier: Apache-2.0
"""The switches as the core keeps them: known state, open questions and orders on their way. Pure."""
