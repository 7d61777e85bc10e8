"""The reader of gateway.yaml: the model, or an error with file, place, value and expectation."""
