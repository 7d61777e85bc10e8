# SPDX-License-Identifier: Apache-2.0
"""The error of an experiment that could not run."""

from __future__ import annotations


class ExperimentFailed(Exception):
    """Nothing was measured, or it means nothing; the sentence says why, and what to do."""
