"""A world of its own with machines, bridges and routers in it: what a topology stands on."""
