"""What the five papers printed, as the experiments read it."""
