"""Topologies with the controller and agents on them, which several experiments and tests share."""
