"""Decisions about paths: how each uplink fares, which one a terminal prefers, and which relay a connection takes."""
