"""What the experiments with live MPTCP connections share: a stream whose every read is stamped, its paths, agents."""
