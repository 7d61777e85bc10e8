"""What app.py and openflow.py lean on: connections from their first byte, fields as bytes, replies, frames, TLS."""
