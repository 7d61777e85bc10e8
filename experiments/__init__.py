"""Each of the papers' tables and figures, run again on real parts and printed beside the paper's numbers."""
