"""The one error of an experiment that could not be made."""

from __future__ import annotations


class ExperimentFailed(Exception):
    """Nothing was measured, or it means nothing; the sentence says why, and what to do."""
