# SPDX-License-Identifier: Apache-2.0
"""The error of an experiment that could not run."""

from __future__ import annotations


class ExperimentFailed(Exception):
    """Report a measurement that is missing or invalid: why, and what to do."""
