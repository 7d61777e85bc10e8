"""Agents: listener, streams, and api/agent.proto translated into values and back."""
