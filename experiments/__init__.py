"""Each of the papers' tables and figures, run again on real parts and printed beside the paper's numbers."""


class ExperimentFailed(Exception):
    """Nothing was measured, or it means nothing; the sentence says why, and what to do."""
