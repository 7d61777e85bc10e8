"""Parts of the heart: flows that answer, whom to believe, and the groups that serve an address. Pure."""
