"""Caps: each terminal of an access point gets at most its part of the airtime."""
