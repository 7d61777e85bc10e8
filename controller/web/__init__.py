"""What stands around the API: its gate, problem bodies, listings, metrics, sockets; and its other side, client.py."""
