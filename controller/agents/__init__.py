"""Agents as every feature sees them: the session, the order slot, and the ownership of addresses."""
