"""The messages between the core and switches, agents and people, as values."""
