"""The switches' side: connections, TLS, OpenFlow as bytes, and the framework."""
