# SPDX-License-Identifier: Apache-2.0
"""The error of a missing framework. It has its own file because framework.py chooses a framework at its import, so
a caller could not catch by name an error that is defined there.
"""

from __future__ import annotations


class FrameworkError(Exception):
    """The framework cannot run here; said when it is chosen or started."""
