"""The controller and its agents as processes of a world, and what they cost and say there."""
