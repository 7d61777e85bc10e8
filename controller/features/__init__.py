"""The features: each folder keeps one feature's state and turns decisions into orders. Pure."""
