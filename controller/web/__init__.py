"""What stands around the API: the gate before it, its problem bodies and listings, its metrics, its sockets."""
