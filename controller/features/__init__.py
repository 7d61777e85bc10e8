"""What the controller does for a site: each folder keeps one feature's state and turns decisions into orders. Pure."""
