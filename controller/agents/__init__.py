"""Agents as every feature sees them: the session, the slot of an order, and who speaks for which address."""
