"""What was measured: figures with what was promised of them, and campaigns of many runs."""
