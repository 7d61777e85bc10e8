"""Switches: connections, TLS, OpenFlow as bytes, and the framework that carries it."""
