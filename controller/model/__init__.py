"""What people wrote in gateway.yaml, and what is known beside it, as frozen values."""
