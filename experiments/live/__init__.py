"""What the experiments with live MPTCP connections share: a stream whose every read is stamped, its paths, agents.

The lab has its agents from here, too.
"""
