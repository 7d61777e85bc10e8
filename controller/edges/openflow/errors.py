# SPDX-License-Identifier: Apache-2.0
"""The error of a missing framework, which framework.py raises during its own import."""

from __future__ import annotations


class FrameworkError(Exception):
    """The framework cannot run here."""
