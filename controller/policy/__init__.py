"""The policies: observations in, decisions with their reasons out. Pure; time is an argument."""
