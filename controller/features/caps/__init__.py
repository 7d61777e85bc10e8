"""Caps: terminals that share an access point are held to their part of its airtime."""
