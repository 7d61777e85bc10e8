# SPDX-License-Identifier: Apache-2.0
"""The error of a missing framework. It has its own file because framework.py raises it during its own import."""

from __future__ import annotations


class FrameworkError(Exception):
    """The framework cannot run here. Raised when it is chosen or started."""
