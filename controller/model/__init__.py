"""The model: the configuration, and the state known beside it, as frozen values."""
