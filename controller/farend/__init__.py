"""What the two ends of the same uplinks know of each other's packets."""
