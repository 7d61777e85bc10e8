"""Decisions about caps: how much each terminal of an access point may have on its way, and why."""
