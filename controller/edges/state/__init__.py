"""Files of the controller's own: read whole, replaced whole, and what a restart finds in them."""
