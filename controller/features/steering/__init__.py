"""Steering: terminals moved between their uplinks, through the agent that reaches their connections."""
