"""gateway.yaml read into the model, or refused whole with file, place, value and expectation."""
